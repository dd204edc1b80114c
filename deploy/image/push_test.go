// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestPush puts the layout into a registry, as `crane push --index` of docs/install.md does, and asks for the image of
// each architecture.
func TestPush(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image")
	if _, err := (release{version: "v9.8.7", made: time.Unix(1700000000, 0)}).write(out, map[string]string{"amd64": own, "arm64": own}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	reference, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/tributary:v9.8.7")
	if err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(reference, index); err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		if config, err := image.ConfigFile(); err != nil || config.Architecture != arch {
			t.Errorf("%s: %+v, %v", arch, config, err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		referrers, err := remote.Referrers(reference.Context().Digest(digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		if manifest, err := referrers.IndexManifest(); err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != string(spdx) {
			t.Errorf("%s has no bill of materials: %+v, %v", arch, manifest, err)
		}
	}
}
