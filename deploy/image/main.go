// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// release says what is built.
type release struct {
	version, commit string
	// made is the time on everything in the image: that of the commit.
	made time.Time
}

func run(ctx context.Context) error {
	source := flag.String("source", "../..", "`directory` of the product's module")
	out := flag.String("out", "../../bin/image", "`directory` for the layout; what is there is replaced")
	version := flag.String("version", "devel", "version that the binary tells")
	commit := flag.String("commit", "unknown", "commit that the binary tells")
	platforms := flag.String("arch", "amd64,arm64", "architectures")
	flag.Parse()
	epoch, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r := release{version: *version, commit: *commit, made: time.Unix(epoch, 0).UTC()}
	dir, err := os.MkdirTemp("", "tributary-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries := map[string]string{}
	for _, arch := range strings.Split(*platforms, ",") {
		binaries[arch] = filepath.Join(dir, arch)
		if err := r.build(ctx, *source, arch, binaries[arch]); err != nil {
			return err
		}
	}
	digest, err := r.write(*out, binaries)
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

// build makes the static binary of one architecture.
func (r release) build(ctx context.Context, source, arch, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -X main.version="+r.version+" -X main.commit="+r.commit, "-o", path, "./cmd/tributary")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build for %s: %w\n%s", arch, err, output)
	}
	return nil
}
