// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"tributary.dev/tributary/e2e/cluster/buildcache"
)

// BinaryEnv names the environment variable with the path of a tributary to use instead of building one.
const BinaryEnv = "TRIBUTARY_BINARY"

// BuildTributary builds cmd/tributary of this source tree, at most once per process, and returns the path of an
// executable that no later build replaces. With race it has the race detector, which needs a C compiler.
func BuildTributary(ctx context.Context, race bool) (string, error) {
	if given := os.Getenv(BinaryEnv); given != "" {
		if _, err := os.Stat(given); err != nil {
			return "", fmt.Errorf("%s: %w", BinaryEnv, err)
		}
		return given, nil
	}
	if race {
		return build(ctx, "tributary-race", "./cmd/tributary", "-race")
	}
	return build(ctx, "tributary", "./cmd/tributary")
}

// BuildReceiver builds deploy/examples/haproxy in the same way.
func BuildReceiver(ctx context.Context) (string, error) {
	return build(ctx, "haproxy-receiver", "./deploy/examples/haproxy")
}

var built struct {
	sync.Mutex
	paths map[string]string
}

func build(ctx context.Context, name, program string, flags ...string) (string, error) {
	built.Lock()
	defer built.Unlock()
	if path, ok := built.paths[name]; ok {
		return path, nil
	}
	path, err := buildOnce(ctx, name, program, flags)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	if built.paths == nil {
		built.paths = map[string]string{}
	}
	built.paths[name] = path
	return path, nil
}

// buildOnce keeps the last build in the cache directory, where the go command leaves it alone if nothing changed,
// and returns a name that stays what it is for the processes that run it.
func buildOnce(ctx context.Context, name, program string, flags []string) (string, error) {
	module, err := buildcache.ModuleDir()
	if err != nil {
		return "", err
	}
	dir, err := buildcache.Dir()
	if err != nil {
		return "", err
	}
	latest := filepath.Join(dir, name)
	lock, err := buildcache.Lock(ctx, latest+".lock", nil)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	args := append([]string{"build", "-buildvcs=false", "-o", latest}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, program)...)
	cmd.Dir = filepath.Dir(module)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, output)
	}
	return buildcache.Pin(latest)
}
