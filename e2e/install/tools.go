// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"tributary.dev/tributary/e2e/cluster/buildcache"
)

// repository is the root of the source tree.
func repository() (string, error) {
	module, err := buildcache.ModuleDir()
	return filepath.Dir(module), err
}

// buildTools builds helm and kubectl of the versions in deploy/helm/go.mod and returns their directory. They stay in the
// cache directory, where the go command does not rebuild them if nothing changed.
func buildTools(ctx context.Context) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	cache, err := buildcache.Dir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tools")
	lock, err := buildcache.Lock(ctx, dir+".lock", nil)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	for name, pkg := range map[string]string{"helm": "helm.sh/helm/v3/cmd/helm", "kubectl": "./kubectl"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), pkg)
		cmd.Dir = filepath.Join(root, "deploy", "helm")
		if output, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return dir, nil
}

// block matches a fenced block of commands, which may be in a list.
var block = regexp.MustCompile("(?ms)^ *```console\n(.*?)^ *```$")

// commands returns the commands of a page in their order, by heading.
func commands(path string) (map[string][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		heading, rest, _ := strings.Cut(section, "\n")
		for _, match := range block.FindAllStringSubmatch(rest, -1) {
			for line := range strings.Lines(match[1]) {
				out[heading] = append(out[heading], strings.TrimSpace(line))
			}
		}
	}
	return out, nil
}
