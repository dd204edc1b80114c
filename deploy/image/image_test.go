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
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestImage builds both binaries, writes the image twice, takes the binaries out of the layout and runs that for this
// machine.
func TestImage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the binary is for Linux")
	}
	r := release{version: "v9.8.7", commit: "abc", made: time.Unix(1700000000, 0).UTC()}
	dir := t.TempDir()
	binaries := map[string]string{}
	for arch := range machines {
		binaries[arch] = filepath.Join(dir, "tributary-"+arch)
		if err := r.build(t.Context(), "../..", arch, binaries[arch]); err != nil {
			t.Fatal(err)
		}
	}
	var digests [2]v1.Hash
	for i, out := range []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")} {
		digest, err := r.write(out, binaries)
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
	for arch := range binaries {
		images, err := partial.FindImages(index, match.Platforms(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil || len(images) != 1 {
			t.Fatalf("%d images for %s (%v)", len(images), arch, err)
		}
		checkImage(t, images[0], arch, filepath.Join(dir, arch))
	}
	checkMaterials(t, filepath.Join(dir, "one", "sbom-linux-amd64.spdx.json"))
}

// machines are the architectures of the image, as executables name them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkImage looks at the binary that is in an image for an architecture, and starts it if it is this machine's.
func checkImage(t *testing.T, image v1.Image, arch, path string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != arch {
		t.Errorf("the image for %s says that it is for %s/%s", arch, config.OS, config.Architecture)
	}
	if c := config.Config; c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/tributary" || c.Labels["org.opencontainers.image.version"] != "v9.8.7" {
		t.Errorf("the image is configured as %+v", c)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v)", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	files := tar.NewReader(content)
	header, err := files.Next()
	if err != nil || header.Name != "tributary" || header.Mode != 0o755 || header.Uid != 0 {
		t.Fatalf("%+v (%v)", header, err)
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, files)
	if closed := out.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	if _, err := files.Next(); err != io.EOF {
		t.Errorf("there is more than the binary (%v)", err)
	}
	executable, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer executable.Close()
	if executable.Machine != machines[arch] {
		t.Errorf("the image for %s holds a binary for %s", arch, executable.Machine)
	}
	for _, part := range executable.Progs {
		if part.Type == elf.PT_INTERP {
			t.Error("the binary is not static")
		}
	}
	if arch != runtime.GOARCH {
		return
	}
	cmd := exec.CommandContext(t.Context(), path, "version")
	cmd.Env = []string{} // nothing of this machine
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "v9.8.7") {
		t.Errorf("tributary version: %v\n%s", err, output)
	}
}

// checkMaterials: what is linked is on the bill, the CA roots among it.
func checkMaterials(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bill document
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	ids := map[string]bool{}
	for _, p := range bill.Packages {
		found[p.Name] = true
		if ids[p.ID] || p.Version == "" {
			t.Errorf("%+v: no version, or its name is taken", p)
		}
		ids[p.ID] = true
	}
	for _, want := range []string{"go", "tributary.dev/tributary", "k8s.io/client-go", "golang.org/x/crypto/x509roots/fallback"} {
		if !found[want] {
			t.Errorf("%s is not on the bill", want)
		}
	}
	if len(bill.Relationships) != len(bill.Packages) {
		t.Errorf("%d packages, %d relationships", len(bill.Packages), len(bill.Relationships))
	}
}
