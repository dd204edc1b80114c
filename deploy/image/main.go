// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image writes Tributary's image as an OCI layout, without a container engine or a registry: ko builds one
// static binary for each architecture, and puts it on a base that holds nothing. The same source makes the same bytes.
// The bills of materials (SPDX) are files beside the layout.
//
//	go run . -out ../../bin/image
//
// It is a module of its own, so that what knows images stays out of the product's dependencies.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/ko/pkg/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	source := flag.String("source", "../..", "`directory` of the product's module")
	out := flag.String("out", "../../bin/image", "`directory` for the layout; what is there is replaced")
	version := flag.String("version", "devel", "version that the binary tells")
	commit := flag.String("commit", "unknown", "commit that the binary tells")
	flag.Parse()
	digest, err := write(ctx, *source, *out, *version, *commit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

// architectures of the image.
var architectures = []string{"amd64", "arm64"}

// write builds the image and writes its layout. Everything in it has the time of SOURCE_DATE_EPOCH.
func write(ctx context.Context, source, out, version, commit string) (digest v1.Hash, err error) {
	epoch, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return digest, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	if out, err = filepath.Abs(out); err != nil {
		return digest, err
	}
	if err := os.RemoveAll(out); err != nil {
		return digest, err
	}
	builder, err := build.NewGo(ctx, source,
		build.WithBaseImages(nothing), build.WithPlatforms("linux/"+strings.Join(architectures, ",linux/")),
		build.WithTrimpath(true), build.WithDefaultFlags([]string{"-buildvcs=false"}), build.WithDefaultEnv([]string{"CGO_ENABLED=0"}),
		build.WithLdflags([]string{"-s", "-w", "-buildid=", "-X main.version=" + version, "-X main.commit=" + commit}),
		build.WithCreationTime(v1.Time{Time: time.Unix(epoch, 0).UTC()}), build.WithUser("65532:65532"),
		build.WithLabel("org.opencontainers.image.title", "tributary"), build.WithLabel("org.opencontainers.image.version", version),
		build.WithLabel("org.opencontainers.image.revision", commit), build.WithLabel("org.opencontainers.image.licenses", "Apache-2.0"),
		build.WithSPDX(version), build.WithSBOMDir(out), build.WithJobs(1))
	if err != nil {
		return digest, err
	}
	built, err := builder.Build(ctx, build.StrictScheme+"tributary.dev/tributary/cmd/tributary")
	if err != nil {
		return digest, err
	}
	index, ok := built.(v1.ImageIndex)
	if !ok {
		return digest, fmt.Errorf("ko built a %T and no index of images", built)
	}
	if _, err := layout.Write(out, index); err != nil {
		return digest, err
	}
	return index.Digest()
}

// nothing is the base of the image: an empty one for each architecture.
func nothing(context.Context, string) (name.Reference, build.Result, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		image, err := mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
		if err != nil {
			return nil, nil, err
		}
		platform := v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: platform})
	}
	reference, err := name.ParseReference("tributary.dev/nothing")
	return reference, index, err
}
