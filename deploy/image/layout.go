// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// spdx is the media type of a bill of materials.
const spdx types.MediaType = "text/spdx+json"

// write puts an image of the binaries, by architecture, into a layout and returns the digest of its index. Each image
// has its bill of materials as a referrer, which is also written as a file.
func (r release) write(out string, binaries map[string]string) (v1.Hash, error) {
	if err := os.RemoveAll(out); err != nil {
		return v1.Hash{}, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(binaries)) {
		image, err := r.image(arch, binaries[arch])
		if err != nil {
			return v1.Hash{}, fmt.Errorf("image for %s: %w", arch, err)
		}
		materials, text, err := r.materials(image, arch, binaries[arch])
		if err != nil {
			return v1.Hash{}, fmt.Errorf("bill of materials for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}},
			mutate.IndexAddendum{Add: materials, Descriptor: v1.Descriptor{ArtifactType: string(spdx), Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}},
		)
		if err := os.MkdirAll(out, 0o755); err != nil {
			return v1.Hash{}, err
		}
		if err := os.WriteFile(filepath.Join(out, "sbom-linux-"+arch+".spdx.json"), text, 0o644); err != nil {
			return v1.Hash{}, err
		}
	}
	if _, err := layout.Write(out, index); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// image has one layer with one file.
func (r release) image(arch, binary string) (v1.Image, error) {
	layer, err := r.layer(binary)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.made}, CreatedBy: "deploy/image"}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.config(image, arch))
}

func (r release) config(image v1.Image, arch string) *v1.ConfigFile {
	file, err := image.ConfigFile()
	if err != nil {
		file = &v1.ConfigFile{} // of an image in memory: it has one
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: r.made}
	file.Config = v1.Config{
		Entrypoint: []string{"/tributary"}, User: "65532:65532", WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title": "tributary", "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return file
}

// layer holds the binary as /tributary.
func (r release) layer(binary string) (v1.Layer, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "tributary", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content)), ModTime: r.made, Format: tar.FormatPAX}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// materials is the bill of materials of an image, as an artifact that refers to it.
func (r release) materials(image v1.Image, arch, binary string) (v1.Image, []byte, error) {
	text, err := r.spdx(arch, binary)
	if err != nil {
		return nil, nil, err
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdx) // by which registries list it
	artifact, err = mutate.AppendLayers(artifact, static.NewLayer(text, spdx))
	if err != nil {
		return nil, nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, nil, err
	}
	size, err := image.Size()
	if err != nil {
		return nil, nil, err
	}
	of := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: size}
	return mutate.Subject(artifact, of).(v1.Image), text, nil
}
