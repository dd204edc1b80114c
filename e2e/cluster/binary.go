// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"tributary.dev/tributary/e2e/cluster/buildcache"
)

// BinaryEnv names the environment variable with the path of an executable of cmd/kubeground to use instead of building one.
const BinaryEnv = "TRIBUTARY_KUBEGROUND"

// kubernetesVersion is the version of k8s.io/kubernetes in go.mod. A server built from a module does not know its
// version, on which clients depend.
const kubernetesVersion = "v1.36.3"

// buildArgs builds cmd/kubeground. Paths are not trimmed, on purpose: it would double the compilation, since vet and
// the tests that import the controllers share these packages through the build cache as long as the flags agree.
// VCS stamping is off, or the executable would change with each commit.
func buildArgs(out string) []string {
	minor := strings.Split(kubernetesVersion, ".")[1]
	const version = "k8s.io/component-base/version."
	return []string{
		"build", "-buildvcs=false", "-o", out,
		"-ldflags=-s -w -X " + version + "gitVersion=" + kubernetesVersion + " -X " + version + "gitMajor=1 -X " + version + "gitMinor=" + minor,
		"./cmd/kubeground",
	}
}

// Binary returns the path of the executable with all servers. The first call on a machine builds it, which takes
// minutes and says so on stderr; the result is stored in the user's cache directory under a name derived from its
// sources. Of several processes that call it at the same time one builds, and the others wait.
func Binary(ctx context.Context) (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", BinaryEnv, err)
		}
		return path, nil
	}
	path, err := cachedBinary(ctx, os.Stderr)
	if err != nil {
		return "", fmt.Errorf("build the cluster binary: %w", err)
	}
	return path, nil
}

func cachedBinary(ctx context.Context, progress io.Writer) (string, error) {
	source, err := buildcache.ModuleDir()
	if err != nil {
		return "", err
	}
	key, err := sourceKey(source)
	if err != nil {
		return "", err
	}
	dir, err := buildcache.Dir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubeground-"+key)
	if buildcache.Has(path) {
		return path, nil
	}
	lock, err := buildcache.Lock(ctx, filepath.Join(dir, "kubeground.lock"), func() {
		fmt.Fprintln(progress, "kubeground: another process is building etcd, kube-apiserver and kube-controller-manager; waiting for it (minutes)")
	})
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if buildcache.Has(path) { // built while we waited
		return path, nil
	}
	buildcache.Prune(dir, "kubeground-")
	return path, build(ctx, source, path, progress)
}

// build compiles to a temporary name and renames, so that a file in the cache is always complete.
func build(ctx context.Context, source, path string, progress io.Writer) error {
	temp := path + ".partial"
	defer os.Remove(temp)
	cmd := exec.CommandContext(ctx, "go", buildArgs(temp)...)
	cmd.Dir = source
	// Flags of the user's environment could change what is built, but not its name.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	stop := reportProgress(progress)
	err := spawn(cmd, false)
	if err == nil {
		err = cmd.Wait()
	}
	stop(err)
	if err != nil {
		return fmt.Errorf("go %s in %s: %w\n%s", strings.Join(cmd.Args[1:], " "), source, err, output.String())
	}
	return os.Rename(temp, path)
}

// reportProgress reports progress at once and every ten seconds, until the returned function is called.
func reportProgress(w io.Writer) (stop func(error)) {
	const what = "kubeground: building etcd, kube-apiserver and kube-controller-manager from source"
	began := time.Now()
	fmt.Fprintln(w, what+"; needed once, takes minutes")
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				fmt.Fprintf(w, "%s; %s so far\n", what, time.Since(began).Round(time.Second))
			}
		}
	}()
	return func(err error) {
		close(quit)
		<-done
		outcome := "done"
		if err != nil {
			outcome = "failed"
		}
		fmt.Fprintf(w, "kubeground: %s after %s\n", outcome, time.Since(began).Round(time.Second))
	}
}

// sourceKey returns a digest of everything that determines the executable.
func sourceKey(source string) (string, error) {
	digest := sha256.New()
	fmt.Fprintln(digest, runtime.Version(), runtime.GOOS, runtime.GOARCH, buildArgs(""))
	files, err := filepath.Glob(filepath.Join(source, "cmd", "kubeground", "*.go"))
	if err != nil {
		return "", err
	}
	for _, path := range append(files, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum")) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(digest, filepath.Base(path), len(text))
		digest.Write(text)
	}
	return hex.EncodeToString(digest.Sum(nil))[:16], nil
}
