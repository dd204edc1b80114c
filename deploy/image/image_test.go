// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestImage writes the image twice, takes the binaries out of the layout and runs that for this machine.
func TestImage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	var digests [2]v1.Hash
	for i, out := range []string{"one", "two"} {
		digest, err := write(t.Context(), "../..", filepath.Join(dir, out), "v9.8.7", "abc")
		if err != nil {
			t.Fatal(err)
		}
		digests[i] = digest
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds differ: %v", digests)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "one"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		images, err := partial.FindImages(index, match.Platforms(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil || len(images) != 1 {
			t.Fatalf("%d images for %s (%v)", len(images), arch, err)
		}
		config, err := images[0].ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if c := config.Config; config.Architecture != arch || c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Labels["org.opencontainers.image.version"] != "v9.8.7" {
			t.Fatalf("the image for %s is configured as %+v", arch, config)
		}
		binary := filepath.Join(dir, arch)
		unpack(t, images[0], config.Config.Entrypoint[0], binary)
		checkBinary(t, binary, machine)
		checkMaterials(t, filepath.Join(dir, "one", "tributary-linux-"+arch+".spdx.json"))
		if runtime.GOOS != "linux" || runtime.GOARCH != arch {
			continue
		}
		cmd := exec.CommandContext(t.Context(), binary, "version")
		cmd.Env = []string{} // nothing of this machine
		if output, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(output), "v9.8.7") {
			t.Errorf("tributary version: %v\n%s", err, output)
		}
	}
}

// unpack extracts what an image starts. There is no other file.
func unpack(t *testing.T, image v1.Image, entrypoint, to string) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		defer content.Close()
		files := tar.NewReader(content)
		for header, err := files.Next(); err != io.EOF; header, err = files.Next() {
			if err != nil {
				t.Fatal(err)
			}
			if header.Typeflag != tar.TypeReg {
				continue
			}
			name := path.Join("/", header.Name)
			if found = append(found, name); name != entrypoint {
				continue
			}
			out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(out, files)
			if closed := out.Close(); err != nil || closed != nil || header.Mode&0o555 != 0o555 {
				t.Fatal(header.Mode, err, closed)
			}
		}
	}
	if len(found) != 1 || found[0] != entrypoint {
		t.Fatalf("the image starts %s and holds %q", entrypoint, found)
	}
}

// checkBinary: it is static, and for that machine.
func checkBinary(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	executable, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer executable.Close()
	if executable.Machine != machine {
		t.Errorf("%s is for %s", path, executable.Machine)
	}
	for _, part := range executable.Progs {
		if part.Type == elf.PT_INTERP {
			t.Errorf("%s is not static", path)
		}
	}
}

// checkMaterials: what is linked is on the bill, the CA roots among it.
func checkMaterials(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Packages []struct{ Name string } `json:"packages"`
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, p := range bill.Packages {
		found[p.Name] = true
	}
	for _, want := range []string{"tributary.dev/tributary", "k8s.io/client-go", "golang.org/x/crypto/x509roots/fallback"} {
		if !found[want] {
			t.Errorf("%s: %s is not on the bill", path, want)
		}
	}
}
