// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// hidden marks every value that no message may hold.
const hidden = "s3cr3t"

// build is a kubeconfig with one context, whose cluster and user are passed as lines of
// YAML.
func build(cluster, user []string) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Config\ncurrent-context: main\npreferences: {}\n")
	b.WriteString("contexts:\n- name: main\n  context: {cluster: c, user: u, namespace: shop}\n")
	b.WriteString("clusters:\n- name: c\n  cluster:\n")
	for _, line := range cluster {
		b.WriteString("    " + line + "\n")
	}
	b.WriteString("users:\n- name: u\n  user:\n")
	for _, line := range user {
		b.WriteString("    " + line + "\n")
	}
	return b.String()
}

func encoded(pem []byte) string { return base64.StdEncoding.EncodeToString(pem) }

// none reads no file.
func none(string) ([]byte, error) { return nil, errors.New("does not exist") }

func lines(faults field.ErrorList) string {
	var out []string
	for _, f := range faults {
		out = append(out, f.Error())
	}
	return strings.Join(out, "\n")
}

// TestWhatIsRefused, of a file and of a Secret alike.
func TestWhatIsRefused(t *testing.T) {
	ca, cert, key := certificates(t)
	const server = "server: https://10.0.0.1:6443"
	with := func(lines ...string) []string { return append([]string{server}, lines...) }
	token := []string{"token: " + hidden}
	good := build(with("certificate-authority-data: "+encoded(ca)), token)
	const no = ": Invalid value: this is no kubeconfig: it is cut off"
	const library = "contexts[main]: Invalid value: the client library refuses what it names: a certificate or key is cut off"
	const noServer = "clusters[c].cluster.server: Invalid value: write the URL of the API server, such as https://10.0.0.1:6443, without a user's name or password"
	for _, test := range []struct{ name, file, want string }{
		{"empty", "", "current-context: Required value: set it"},
		{"cut inside a flow mapping", good[:strings.Index(good, ", namespace")], ": Invalid value: line "},
		{"cut before the users", good[:strings.Index(good, "users:")], `contexts[main].context.user: Not found: "u": name an entry of users; the file may be cut off`},
		{"cut inside the CA", good[:strings.Index(good, "LS0t")+101], no},
		{"cut before the credential", good[:strings.Index(good, "token:")], "users[u].user: Required value: holds no credential: give a token or a client certificate; the file may be cut off"},
		{"text", hidden, no},
		{"an object of another kind", "apiVersion: v1\nkind: Secret\ndata: {token: " + hidden + "}", no},
		{"a file of ours", "apiVersion: tributary.dev/v1alpha1\nkind: Config\nclusters: []", no},
		{"repeated user", good + "- name: u\n  user: {token: " + hidden + "}\n", no},
		{"a value of the wrong type", build(with(), []string{"token: {" + hidden + ": 1}"}), no},
		{"an unquoted star", build(with(), []string{"token: *" + hidden}), no},
		{"no current context", strings.Replace(good, "current-context: main\n", "", 1), "current-context: Required value: set it, or name a context in the configuration"},
		{"unknown current context", strings.Replace(good, "current-context: main", "current-context: other", 1), `contexts: Not found: "other": name a context that kubectl config get-contexts lists; the file may be cut off`},
		{"no contexts", "current-context: main", `contexts: Not found: "main": name a context`},
		{"missing cluster", strings.Replace(good, "- name: c\n", "- name: d\n", 1), `contexts[main].context.cluster: Not found: "c": name an entry of clusters; the file may be cut off`},
		{"no server", build([]string{"tls-server-name: x"}, token), noServer},
		{"server without scheme", build([]string{"server: 10.0.0.1:6443"}, token), noServer},
		{"server of another scheme", build([]string{"server: unix:///run/" + hidden}, token), noServer},
		{"server with a password", build([]string{"server: https://me:" + hidden + "@10.0.0.1"}, token), noServer},
		{"bad base64", build(with(), []string{"client-key-data: " + hidden + "!"}), no},
		{"CA that is not PEM", build(with("certificate-authority-data: "+encoded([]byte(hidden))), token), library},
		{"certificate without key", build(with(), []string{"client-certificate-data: " + encoded(cert)}), library},
		{"key without certificate", build(with(), []string{"client-key-data: " + encoded(key)}), "users[u].user: Required value: holds no credential"},
		{"certificate of another key", build(with(), []string{"client-certificate-data: " + encoded(ca), "client-key-data: " + encoded(key)}), library},
		{"token with a line break", build(with(), []string{`token: "` + hidden + `\n"`}), "users[u].user.token: Invalid value: holds a blank, line break or control character"},
	} {
		for from, read := range map[string]func() (*Accepted, field.ErrorList){
			"file":   func() (*Accepted, field.ErrorList) { return FromFile("/k/x", "", []byte(test.file), none) },
			"Secret": func() (*Accepted, field.ErrorList) { return FromSecret("", []byte(test.file)) },
		} {
			accepted, faults := read()
			if got := lines(faults); accepted != nil || !strings.HasPrefix(got, test.want) || strings.Contains(got, hidden) {
				t.Errorf("%s, from a %s: %v\n got %s\nwant %s", test.name, from, accepted, got, test.want)
			}
		}
	}
	if _, faults := FromFile("/k/x", "other", []byte(good), none); lines(faults) != `contexts: Not found: "other": name a context that kubectl config get-contexts lists; the file may be cut off` {
		t.Error(lines(faults))
	}
}

// TestWhatASecretMayNotHold: each field by its name, and nothing of it is left.
func TestWhatASecretMayNotHold(t *testing.T) {
	text := build([]string{"server: https://a", "insecure-skip-tls-verify: true", "proxy-url: http://u:" + hidden + "@proxy", "certificate-authority: ca.pem"},
		[]string{"client-certificate: c.pem", "client-key: k.pem", "tokenFile: t", "as: admin", "as-uid: x", "as-groups: [a]", "as-user-extra: {a: [b]}", "username: u", "password: " + hidden,
			"exec: {command: aws, apiVersion: client.authentication.k8s.io/v1}", "auth-provider: {name: gcp, config: {x: " + hidden + "}}"})
	_, faults := FromSecret("", []byte(text))
	var got []string
	for _, f := range faults {
		if f.Type != field.ErrorTypeForbidden || f.Detail == "" || strings.Contains(f.Error(), hidden) {
			t.Error(f)
		}
		got = append(got, f.Field[strings.LastIndexByte(f.Field, '.')+1:])
	}
	want := "certificate-authority insecure-skip-tls-verify proxy-url as as-groups as-uid as-user-extra auth-provider client-certificate client-key exec password tokenFile username"
	if strings.Join(got, " ") != want {
		t.Errorf("refused: %s", got)
	}
}

// TestWhatAFileMayHold: whatever client-go accepts, and it is reported.
func TestWhatAFileMayHold(t *testing.T) {
	ca, cert, key := certificates(t)
	dir := t.TempDir()
	for name, text := range map[string][]byte{"ca.pem": ca, "c.pem": cert, "k.pem": key, "t": []byte("from-file\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "x.kubeconfig")
	take := func(cluster, user []string) *Accepted {
		t.Helper()
		accepted, faults := FromFile(path, "", []byte(build(append(cluster, "server: https://a"), user)), ReadFile)
		if len(faults) > 0 {
			t.Fatal(lines(faults))
		}
		return accepted
	}
	files := take([]string{"certificate-authority: ca.pem"}, []string{"client-certificate: c.pem", "client-key: " + filepath.Join(dir, "k.pem"), "tokenFile: t"})
	if c := files.REST; string(c.CAData) != string(ca) || string(c.CertData) != string(cert) || string(c.KeyData) != string(key) || c.CAFile+c.CertFile+c.KeyFile != "" ||
		c.BearerTokenFile != filepath.Join(dir, "t") || c.QPS != -1 || files.Note != "" {
		t.Errorf("%+v", files)
	}
	if err := os.WriteFile(filepath.Join(dir, "t"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := take([]string{"certificate-authority: ca.pem"}, []string{"client-certificate: c.pem", "client-key: k.pem", "tokenFile: t"}); again.Hash != files.Hash {
		t.Error("a token in a file of its own, which client-go reads again, is another way")
	}
	exec := take(nil, []string{"exec: {command: ./plugin, args: [" + hidden + "], apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}"})
	if e := exec.REST.ExecProvider; e.Command != filepath.Join(dir, "plugin") || e.InteractiveMode != api.NeverExecInteractiveMode || !e.StdinUnavailable || exec.Note != "runs "+e.Command+" for its credential" {
		t.Errorf("%v, %q", e, exec.Note)
	}
	rest := take([]string{"proxy-url: http://u:" + hidden + "@proxy", "insecure-skip-tls-verify: true"}, []string{"as: admin", "username: u", "password: " + hidden})
	if rest.REST.Proxy == nil || !rest.REST.Insecure || rest.REST.Impersonate.UserName != "admin" || rest.Note != "does not verify the server" {
		t.Errorf("%v %q", rest.REST, rest.Note)
	}
	oidc := take(nil, []string{"auth-provider: {name: oidc, config: {client-id: a, idp-issuer-url: https://b}}"})
	if oidc.REST.AuthConfigPersister == nil || oidc.Note != "uses the auth provider oidc" {
		t.Errorf("%q", oidc.Note)
	}
	plain, faults := FromFile(path, "", []byte(build([]string{"server: http://a"}, nil)), none)
	if len(faults) > 0 || plain.REST.Host != "http://a" {
		t.Error(lines(faults))
	}
	_, faults = FromFile("/k/x", "", []byte(build([]string{"server: https://a", "certificate-authority: ca.pem"}, []string{"client-certificate: /c.pem", "client-key: ../k.pem", "tokenFile: t"})), none)
	want := `clusters[c].cluster.certificate-authority: Not found: "/k/ca.pem": does not exist` + "\n" + `users[u].user.client-certificate: Not found: "/c.pem": does not exist` + "\n" +
		`users[u].user.client-key: Not found: "/k.pem": does not exist` + "\n" + `users[u].user.tokenFile: Not found: "/k/t": does not exist`
	if lines(faults) != want {
		t.Error(lines(faults))
	}
	_, faults = FromFile("/k/x", "", []byte(build([]string{"server: https://a"}, []string{"tokenFile: t"})), none)
	if got := lines(faults); got != `users[u].user.tokenFile: Not found: "/k/t": does not exist` {
		t.Error(got)
	}
	_, faults = FromFile(path, "", []byte(build([]string{"server: https://a"}, []string{"exec: {command: a, args: [" + hidden + "]}"})), none)
	if got := lines(faults); !strings.HasPrefix(got, "contexts[main]: Invalid value: the client library refuses what it names") || strings.Contains(got, hidden) {
		t.Error(got)
	}
}

func TestHashes(t *testing.T) {
	two := strings.Replace(build([]string{"server: https://a", "extensions: [{name: minikube, extension: {last-update: x}}]"}, []string{"token: a"}), "contexts:\n", "contexts:\n- name: other\n  context: {cluster: c, user: u}\n", 1)
	hash := func(context, text string) string {
		t.Helper()
		accepted, faults := FromSecret(context, []byte(text))
		of, more := FromFile("/x", context, []byte(text), none)
		if len(faults)+len(more) > 0 {
			t.Fatal(lines(append(faults, more...)))
		}
		return fmt.Sprint(accepted.Hash, of.Hash)
	}
	of := hash("", two)
	for edit, same := range map[string]bool{"last-update: x|last-update: y": true, "namespace: shop|namespace: pay": true, "token: a|token: b": false, "https://a|https://b": false} {
		from, to, _ := strings.Cut(edit, "|")
		if (hash("", strings.Replace(two, from, to, 1)) == of) != same {
			t.Errorf("%s: the same: %t", edit, !same)
		}
	}
	if hash("other", two) != of {
		t.Error("another context that leads to the same is another way")
	}
}

func TestInCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := InCluster(none); err == nil || !strings.Contains(err.Error(), "does not run in a cluster") {
		t.Error(err)
	}
}

// FuzzRead: no text makes the decision panic; what a Secret may hold has none of what is
// refused, a transport can be made of it, and clientcmd comes to the same client. Whatever
// precedes a user's secrets, no fault quotes them.
func FuzzRead(f *testing.F) {
	ca, cert, key := certificates(f)
	f.Add(build([]string{"server: https://a", "certificate-authority-data: " + encoded(ca)}, []string{"token: t"}))
	f.Add(build([]string{"server: https://a", "tls-server-name: x"}, []string{"client-certificate-data: " + encoded(cert), "client-key-data: " + encoded(key)}))
	f.Add(build([]string{"server: https://a", "proxy-url: x"}, []string{"exec: {command: x}"}))
	f.Add(`{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"","user":"a"}}],"clusters":[{"name":"","cluster":{"server":"https://a"}}],"users":[{"name":"a","user":{"token":"t"}}]}`)
	const users = "\nusers:\n- name: u\n  user: {token: " + hidden + ", password: " + hidden + ", client-key-data: " + hidden + "}\n"
	f.Fuzz(func(t *testing.T, text string) {
		accepted, faults := FromSecret("", []byte(text))
		_, ofFile := FromFile("/k/x", "", []byte(text+users), none)
		_, ofSecret := FromSecret("", []byte(text+users))
		if got := lines(append(ofFile, ofSecret...)); !strings.Contains(text, hidden) && strings.Contains(got, hidden) {
			t.Fatal(got)
		}
		if (accepted == nil) != (len(faults) > 0) {
			t.Fatal(accepted, faults)
		}
		if accepted == nil {
			return
		}
		c := accepted.REST
		if c.Insecure || c.Proxy != nil || c.ExecProvider != nil || c.AuthProvider != nil || !reflect.DeepEqual(c.Impersonate, rest.ImpersonationConfig{}) ||
			c.CAFile+c.CertFile+c.KeyFile+c.BearerTokenFile+c.Username+c.Password != "" {
			t.Fatalf("accepted what is refused: %v", c)
		}
		if theirs, err := clientcmd.RESTConfigFromKubeConfig([]byte(text)); err == nil && (theirs.Host != c.Host || theirs.BearerToken != c.BearerToken || string(theirs.CertData) != string(c.CertData)) {
			t.Fatalf("%v is not what clientcmd has: %v", c, theirs)
		}
	})
}
