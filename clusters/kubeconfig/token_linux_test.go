// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReplaceMounted: a file that is a mount of its own, as a container has one, cannot be replaced, and Replaceable says so
// beforehand. It runs once more, in a mount namespace.
func TestReplaceMounted(t *testing.T) {
	const mounted = "TRIBUTARY_TEST_MOUNTED"
	if path := os.Getenv(mounted); path != "" {
		if err := syscall.Mount(filepath.Join(filepath.Dir(path), "source"), path, "", syscall.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		before, err := Replaceable(path), ReplaceFile(path, []byte("new"))
		if before == nil || err == nil || before.Error() != err.Error() || !strings.Contains(err.Error(), path+", which is mounted by itself") {
			t.Errorf("%v, then %v", before, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
			t.Errorf("it holds %q, %v", text, err)
		}
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"source", "k"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReplaceMounted$", "-test.count=1")
	cmd.Env = append(os.Environ(), mounted+"="+filepath.Join(dir, "k"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("mount namespaces are denied here:", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}
