// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"tributary.dev/tributary/e2e/cluster/buildcache"
)

// The consumers, as their modules have them. Each is built inside its own module, with its own replacements.
const (
	traefikModule = "github.com/traefik/traefik/v3@v3.6.0"
	corednsModule = "github.com/coredns/coredns@v1.15.0"
	// gatewayModule has the definitions of the Gateway API that Traefik was built against.
	gatewayModule = "sigs.k8s.io/gateway-api@v1.4.0"
)

// moduleDir downloads a module and returns where it is.
func moduleDir(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir() // no module's own
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", module, err, out)
	}
	var answer struct{ Dir string }
	return answer.Dir, json.Unmarshal(out, &answer)
}

// build builds a program of a module, once per machine, and returns its path.
func build(ctx context.Context, module, program string) (string, error) {
	cache, err := buildcache.Dir()
	if err != nil {
		return "", err
	}
	path, name, version := "", "", ""
	name, version, _ = strings.Cut(module, "@")
	path = filepath.Join(cache, filepath.Base(strings.TrimSuffix(name, "/v3"))+"-"+version)
	if buildcache.Has(path) {
		return path, nil
	}
	lock, err := buildcache.Lock(ctx, path+".lock", nil)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if buildcache.Has(path) {
		return path, nil
	}
	dir, err := moduleDir(ctx, module)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "building %s; needed once, takes minutes\n", module)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path+".partial", program)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", module, err, output.String())
	}
	return path, os.Rename(path+".partial", path)
}
