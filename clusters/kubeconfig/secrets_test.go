// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config/strict"
)

// everything asks for each allowed feature, with files in memory.
func everything(t testing.TB) (file string, files map[string]string, secrets []string) {
	ca, cert, key := certificates(t)
	file = build(
		[]string{"server: https://10.0.0.1:6443", "proxy-url: socks5://proxy:1080", "certificate-authority: pki/ca.pem"},
		[]string{
			"client-certificate: /abs/c.pem", "client-key: ../k.pem", "tokenFile: token", "as: admin",
			"exec: {command: /bin/login, args: [" + secret + "], env: [{name: KEY, value: " + secret + "}], apiVersion: client.authentication.k8s.io/v1}",
		},
	)
	files = map[string]string{
		"/etc/tributary/pki/ca.pem": string(ca), "/abs/c.pem": string(cert), "/etc/k.pem": string(key), "/etc/tributary/token": secret,
	}
	return file, files, []string{secret, string(key), encoded(key), strings.Split(string(key), "\n")[1]}
}

func TestEverythingAllowed(t *testing.T) {
	file, files, _ := everything(t)
	accepted, err := Accept([]byte(file), request(files, Features()...))
	if err != nil {
		t.Fatal(err)
	}
	c := accepted.REST
	got := []string{string(c.CAData), string(c.CertData), string(c.KeyData), c.BearerToken, c.ExecProvider.Command, string(c.ExecProvider.InteractiveMode), c.Impersonate.UserName}
	want := []string{files["/etc/tributary/pki/ca.pem"], files["/abs/c.pem"], files["/etc/k.pem"], secret, "/bin/login", "Never", "admin"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if left := c.CAFile + c.CertFile + c.KeyFile + c.BearerTokenFile; left != "" {
		t.Errorf("%s is left to be read by somebody else", left)
	}
	if !c.ExecProvider.StdinUnavailable || c.Proxy == nil {
		t.Errorf("plugin may use the terminal, or no proxy: %v", c)
	}
	if _, err := rest.TransportFor(c); err != nil && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("client-go refuses what was accepted: %v", err)
	}
}

func TestAuthProvider(t *testing.T) {
	file := build([]string{"server: https://10.0.0.1"}, []string{"auth-provider: {name: oidc, config: {idp-issuer-url: 'https://i', client-id: c, id-token: " + secret + "}}"})
	accepted, err := Accept([]byte(file), request(nil, AuthProvider))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest.TransportFor(accepted.REST); err != nil {
		t.Errorf("client-go refuses what was accepted: %v", err)
	}
	if err := accepted.REST.AuthConfigPersister.Persist(nil); err != nil {
		t.Error(err)
	}
}

// TestNothingFormattedTellsASecret formats whatever a caller can hold.
func TestNothingFormattedTellsASecret(t *testing.T) {
	file, files, secrets := everything(t)
	_, cert, key := certificates(t)
	inline := build([]string{"server: https://10.0.0.1"}, []string{"token: " + secret, "client-certificate-data: " + encoded(cert), "client-key-data: " + encoded(key)})
	basic := build([]string{"server: https://10.0.0.1"}, []string{"username: me", "password: " + secret})
	secrets = append(secrets, string(key), encoded(key))
	for _, text := range []string{file, inline, basic} {
		r := request(files, Features()...)
		accepted, err := Accept([]byte(text), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			for _, value := range []any{accepted, *accepted, []*Accepted{accepted}, map[string]Accepted{"a": *accepted}} {
				printed := fmt.Sprintf(format, value)
				for _, s := range secrets {
					if strings.Contains(printed, s) {
						t.Errorf("%s of %T tells a secret: %s", format, value, printed)
					}
				}
			}
		}
	}
}

// TestCutOffAnywhere cuts a file at every byte, as a reader may see it while it
// is being written. It is refused, or complete but for its last value.
func TestCutOffAnywhere(t *testing.T) {
	ca, cert, key := certificates(t)
	file := build([]string{"server: https://10.0.0.1", "certificate-authority-data: " + encoded(ca)},
		[]string{"client-certificate-data: " + encoded(cert), "client-key-data: " + encoded(key)})
	whole := len(strings.TrimSpace(file))
	for n := range file {
		_, err := Accept([]byte(file[:n]), request(nil))
		if accepted := err == nil; accepted && n < whole-4 {
			t.Fatalf("accepted when cut at %d of %d", n, len(file))
		}
		if err != nil && (strings.Contains(err.Error(), encoded(key)[:20]) || err.Error() == "") {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func TestHash(t *testing.T) {
	hash := func(file, context string, allow ...Feature) string {
		r := request(map[string]string{"/etc/tributary/t": "x"}, allow...)
		r.Context = context
		accepted, err := Accept([]byte(file), r)
		if err != nil {
			t.Fatal(err)
		}
		return accepted.Hash
	}
	server, token := []string{"server: https://a"}, []string{"token: t"}
	base := build(server, token)
	same := map[string]string{
		"again":              hash(base, ""),
		"context by name":    hash(base, "main"),
		"reformatted":        hash("# rotated\n"+base, ""),
		"another user added": hash(base+"- name: v\n  user: {token: v}\n", ""),
		"feature allowed":    hash(base, "", Files),
	}
	for name, got := range same {
		if got != hash(base, "") {
			t.Errorf("%s: hash changed", name)
		}
	}
	other := map[string]string{
		"base":     hash(base, ""),
		"token":    hash(build(server, []string{"token: u"}), ""),
		"server":   hash(build([]string{"server: https://b"}, token), ""),
		"file":     hash(build(server, []string{"tokenFile: t"}), "", Files),
		"name":     hash(build(append(server, "tls-server-name: x"), token), ""),
		"password": hash(build(server, []string{"password: t"}), ""),
	}
	if distinct := slices.Compact(slices.Sorted(maps.Values(other))); len(distinct) != len(other) {
		t.Errorf("different files with one hash: %v", other)
	}
}

// What a named file holds counts like what is given inline.
func TestHashOfNamedFiles(t *testing.T) {
	file, files, _ := everything(t)
	seen := map[string]string{}
	note := func(change string) {
		t.Helper()
		accepted, err := Accept([]byte(file), request(files, Features()...))
		if err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		if before, known := seen[accepted.Hash]; known {
			t.Errorf("%s has the hash of %s", change, before)
		}
		seen[accepted.Hash] = change
	}
	note("nothing")
	files["/etc/tributary/token"] = "another"
	note("the token")
	ca, cert, key := certificates(t)
	files["/etc/tributary/pki/ca.pem"] += string(ca)
	note("the CA")
	files["/abs/c.pem"], files["/etc/k.pem"] = string(cert)+string(ca), string(key)
	note("the certificate and its key")
}

// load reads a kubeconfig and accepts or refuses it.
func load(r Request) (*Accepted, error) {
	data, err := r.read(r.Path)
	if err != nil {
		return nil, strict.Faults{Unreadable(r, err)}
	}
	return Accept(data, r)
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.kubeconfig")
	r := Request{Path: path, ConfigFile: "tributary.yaml", Owner: "clusters[1]"}
	fails := func(want string) {
		t.Helper()
		if _, err := load(r); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	fails("tributary.yaml: clusters[1].kubeconfig: " + path + " does not exist")
	r.Owner = ""
	fails(path + ": does not exist")
	r.Path = dir
	fails(dir + ": is a directory, not a file")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Path = filepath.Join(dir, "pipe")
	fails(r.Path + ": is not a regular file")
	r.Path = path
	if err := os.WriteFile(path, make([]byte, MaxFileSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(path + ": is larger than 1048576 bytes")
	if err := os.WriteFile(path, []byte(build([]string{"server: https://a"}, []string{"token: t"})), 0o600); err != nil {
		t.Fatal(err)
	}
	if accepted, err := load(r); err != nil || accepted.REST.Host != "https://a" {
		t.Errorf("got %v, %v", accepted, err)
	}
}

func TestReadErrorsAreWorded(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "/p", Err: fs.ErrPermission}, "may not be read by this user"},
		{&fs.PathError{Op: "read", Path: "/p", Err: syscall.EIO}, "cannot be read: input/output error"},
		{errors.New("odd"), "cannot be read: odd"},
	} {
		got := worded(test.err)
		if got.Error() != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestInCluster(t *testing.T) {
	_, err := inCluster("tributary.yaml", "ingress.kubeconfig", ReadFile, func() (*rest.Config, error) { return nil, rest.ErrNotInCluster })
	want := "tributary.yaml: ingress.kubeconfig: is left out, but this process does not run in a cluster; name a kubeconfig of the ingress cluster, or run as a pod in it"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	_, err = inCluster("tributary.yaml", "ingress.kubeconfig", ReadFile, func() (*rest.Config, error) { return nil, fs.ErrNotExist })
	want = "tributary.yaml: ingress.kubeconfig: is left out, and the pod's service account cannot be used: does not exist; name a kubeconfig of the ingress cluster, or run as a pod in it"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	got, err := inCluster("", "", ReadFile, func() (*rest.Config, error) { return &rest.Config{Host: "h"}, nil })
	if err != nil || got.REST.QPS != -1 || got.Hash == "" {
		t.Errorf("got %v, %v", got, err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := InCluster("f", "x", ReadFile); err == nil {
		t.Error("in a cluster without its variables")
	}
}

// A CA that is replaced while the pod lives is another way to the cluster.
func TestInClusterCA(t *testing.T) {
	ca := "one"
	way := func() *Accepted {
		accepted, err := inCluster("", "", func(string) ([]byte, error) { return []byte(ca), nil }, func() (*rest.Config, error) {
			return &rest.Config{Host: "h", BearerTokenFile: "/token", TLSClientConfig: rest.TLSClientConfig{CAFile: "/ca"}}, nil
		})
		if err != nil || string(accepted.REST.CAData) != ca || accepted.REST.CAFile != "" || accepted.REST.BearerTokenFile != "/token" {
			t.Fatalf("%v, %v", accepted, err)
		}
		return accepted
	}
	before := way()
	if way().Hash != before.Hash {
		t.Error("the same CA is another way")
	}
	ca = "two"
	if way().Hash == before.Hash {
		t.Error("another CA is the same way")
	}
}
