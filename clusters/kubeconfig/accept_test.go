// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"tributary.dev/tributary/clusters/config/strict"
)

// build is a kubeconfig whose one context leads to the cluster and user given as
// lines of YAML.
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

// request asks for a file that only exists in memory, as clusters[0] of a
// configuration file does.
func request(files map[string]string, allow ...Feature) Request {
	return Request{
		Path: "/etc/tributary/a.kubeconfig", Allow: allow,
		ConfigFile: "tributary.yaml", Owner: "clusters[0]",
		ReadFile: func(path string) ([]byte, error) {
			text, ok := files[path]
			if !ok {
				return nil, worded(fs.ErrNotExist)
			}
			return []byte(text), nil
		},
	}
}

// secret marks every value that no message may hold.
const secret = "s3cr3t"

// refusal is a kubeconfig that is not accepted.
type refusal struct {
	name  string
	file  string
	allow []Feature
	want  []string
}

func refusals(ca, cert, key []byte) []refusal {
	server := "server: https://10.0.0.1:6443"
	with := func(lines ...string) []string { return append([]string{server}, lines...) }
	token := []string{"token: " + secret}
	good := build(with("certificate-authority-data: "+encoded(ca)), token)
	const cut = "; the file may be cut off: write it to a new file and rename that"
	allowing := func(feature Feature) string {
		return fmt.Sprintf(", or add %s to clusters[0].allowInKubeconfig", feature)
	}
	return slices.Concat([]refusal{
		{"empty", "", nil, []string{"is empty" + cut}},
		{"only white space", " \n\n", nil, []string{"is empty" + cut}},
		{"cut inside a flow mapping", good[:strings.Index(good, ", namespace")], nil, []string{"is not valid YAML: did not find expected ',' or '}'" + cut}},
		{"cut before the users", good[:strings.Index(good, "users:")], nil, []string{`contexts[0].context.user: "u" is not in users; the file may be cut off, or name another entry`}},
		{"cut inside the CA", good[:strings.Index(good, "LS0t")+101], nil, []string{"clusters[0].cluster.certificate-authority-data: is not valid base64; the file may be cut off; write it again"}},
		{"cut before the credential", good[:strings.Index(good, "token:")], nil, []string{"users[0].user: holds no credential; give a token or client certificate; or the file may be cut off"}},
		{"text", secret, nil, []string{"is not a mapping of fields to values" + cut}},
		{"an object of another kind", "apiVersion: v1\nkind: Secret\ndata: {token: " + secret + "}", nil, []string{`is a "Secret" of "v1", not a kubeconfig; it must be a "Config" of "v1"`}},
		{"a file of ours", "apiVersion: tributary.dev/v1alpha1\nkind: Config\nclusters: []", nil, []string{`is a "Config" of "tributary.dev/v1alpha1", not a kubeconfig; it must be a "Config" of "v1"`}},
		{"several documents", good + "---\na: " + secret, nil, []string{"holds several documents, the second on line 17; keep one"}},
		{"repeated key", build(with(), []string{"token: " + secret, "token: " + secret}), nil, []string{"users[0].user.token: repeated field, on line 15 and on line 16; keep one"}},
		{"repeated unknown key", build(with(), []string{secret + ": 1", secret + ": 2"}), nil, []string{"users[0].user: repeated field, on line 15 and on line 16; keep one"}},
		{"repeated user", good + "- name: u\n  user: {token: " + secret + "}\n", nil, []string{"users[1].name: repeats users[0].name; keep one"}},
		{"repeated cluster and context", "clusters: [{name: a}, {name: a}]\ncontexts: [{name: b}, {name: b}]", nil, []string{
			"contexts[1].name: repeats contexts[0].name; keep one", "clusters[1].name: repeats clusters[0].name; keep one",
		}},
		{"a value of the wrong type", build(with("insecure-skip-tls-verify: yes"), []string{"token: 5" + strings.Repeat("3", 9), "client-key-data: {" + secret + ": 1}"}), nil, []string{
			"clusters[0].cluster.insecure-skip-tls-verify: must be true or false",
			"users[0].user.token: must be text; put it in quotes",
			"users[0].user.client-key-data: must be text in base64",
		}},
		{"an unquoted star", build(with(), []string{"token: *" + secret}), nil, []string{"is not valid YAML: an alias names an unknown anchor (a value that begins with * must be quoted)" + cut}},
		{"an alias", build(with(), []string{"username: &" + secret + " u", "token: *" + secret}), nil, []string{
			"users[0].user.username: uses a YAML anchor or alias; write the value out, or quote it if it begins with & or *",
			"users[0].user.token: uses a YAML anchor or alias; write the value out, or quote it if it begins with & or *",
		}},
		{"a merge key", build(with(), []string{"<<: {token: " + secret + "}"}), nil, []string{"users[0].user: has a key on line 15 that is not plain text"}},
		{"no current context", strings.Replace(good, "current-context: main\n", "", 1), nil, []string{"current-context: is not set; set it, or give clusters[0].context; its contexts are main"}},
		{"unknown current context", strings.Replace(good, "current-context: main", "current-context: other", 1), nil, []string{`current-context: "other" is not a context of a.kubeconfig; its contexts are main`}},
		{"no contexts", "current-context: main", nil, []string{`current-context: "main" is not a context of a.kubeconfig; the file has no contexts`}},
		{"context without names", "contexts: [{name: main}]\ncurrent-context: main", nil, []string{
			"contexts[0].context.cluster: must be given; name an entry of clusters", "contexts[0].context.user: must be given; name an entry of users",
		}},
		{"missing cluster", strings.Replace(good, "- name: c\n", "- name: d\n", 1), nil, []string{`contexts[0].context.cluster: "c" is not in clusters; the file may be cut off, or name another entry`}},
		{"no server", build([]string{"tls-server-name: x"}, token), nil, []string{"clusters[0].cluster.server: must be given; write the URL of the API server, such as https://10.0.0.1:6443"}},
		{"server without scheme", build([]string{"server: 10.0.0.1:6443"}, token), nil, []string{"clusters[0].cluster.server: is not the URL of an API server; write one such as https://10.0.0.1:6443"}},
		{"server of another scheme", build([]string{"server: unix:///run/" + secret}, token), nil, []string{"clusters[0].cluster.server: is not the URL of an API server; write one such as https://10.0.0.1:6443"}},
		{"server with a password", build([]string{"server: https://me:" + secret + "@10.0.0.1"}, token), nil, []string{"clusters[0].cluster.server: holds a user name or password; put the credential into the user's entry"}},
		{"bad base64", build(with("certificate-authority-data: "+secret+"!"), []string{"client-key-data: " + secret + "!"}), nil, []string{
			"clusters[0].cluster.certificate-authority-data: is not valid base64; the file may be cut off; write it again",
			"users[0].user.client-key-data: is not valid base64; the file may be cut off; write it again",
		}},
		{"CA that is not PEM", build(with("certificate-authority-data: "+encoded([]byte(secret))), token), nil, []string{"clusters[0].cluster.certificate-authority-data: is not a list of certificates in PEM; the file may be cut off; write it again"}},
		{"CA that is cut off", build(with("certificate-authority-data: "+encoded(ca[:len(ca)-40])), token), nil, []string{"clusters[0].cluster.certificate-authority-data: is not a list of certificates in PEM; the file may be cut off; write it again"}},
		{"second CA that is cut off", build(with("certificate-authority-data: "+encoded(slices.Concat(ca, ca[:100]))), token), nil, []string{"clusters[0].cluster.certificate-authority-data: is not a list of certificates in PEM; the file may be cut off; write it again"}},
		{"a key in place of the CA", build(with("certificate-authority-data: "+encoded(key)), token), nil, []string{"clusters[0].cluster.certificate-authority-data: is not a list of certificates in PEM; the file may be cut off; write it again"}},
		{"certificate without key", build(with(), []string{"client-certificate-data: " + encoded(cert)}), nil, []string{"users[0].user.client-certificate-data: comes without client-key-data; give both"}},
		{"key without certificate", build(with(), []string{"client-key-data: " + encoded(key)}), nil, []string{"users[0].user.client-key-data: comes without client-certificate-data; give both"}},
		{"certificate of another key", build(with(), []string{"client-certificate-data: " + encoded(ca), "client-key-data: " + encoded(key)}), nil, []string{"users[0].user.client-certificate-data: and client-key-data are not a certificate and its key in PEM; the file may be cut off; write it again"}},
		{"token with a line break", build(with(), []string{`token: "` + secret + `\n"`}), nil, []string{"users[0].user.token: holds a blank, line break or control character; write it again as one line of plain text"}},
		{"token and password", build(with(), []string{"token: " + secret, "username: me", "password: " + secret}), nil, []string{"users[0].user: holds both a token and a user name or password; keep one of the two"}},
		{"all that is refused", build(
			with("insecure-skip-tls-verify: true", "proxy-url: http://u:"+secret+"@proxy", "certificate-authority: ca.pem"),
			[]string{"client-certificate: c.pem", "client-key: k.pem", "tokenFile: t", "as: admin", "as-groups: [a]", "exec: {command: aws}", "auth-provider: {name: gcp}"},
		), nil, []string{
			"clusters[0].cluster.insecure-skip-tls-verify: is refused: it trusts whoever answers; give certificate-authority-data" + allowing(InsecureSkipTLSVerify),
			"clusters[0].cluster.proxy-url: is refused: it sends credentials through another host; remove it" + allowing(ProxyURL),
			"clusters[0].cluster.certificate-authority: is refused: it reads another file of this machine; put the content itself into certificate-authority-data" + allowing(Files),
			"users[0].user.client-certificate: is refused: it reads another file of this machine; put the content itself into client-certificate-data" + allowing(Files),
			"users[0].user.client-key: is refused: it reads another file of this machine; put the content itself into client-key-data" + allowing(Files),
			"users[0].user.tokenFile: is refused: it reads another file of this machine; put the content itself into token" + allowing(Files),
			"users[0].user.as: is refused: it acts in the name of another user; use that user's own credential" + allowing(Impersonation),
			"users[0].user.exec: is refused: it runs a program on this machine; use an inline token or client certificate" + allowing(Exec),
			"users[0].user.auth-provider: is refused: it runs a credential plugin; use an inline token or client certificate" + allowing(AuthProvider),
		}},
	}, impersonations(), allowedButWrong(ca))
}

func impersonations() []refusal {
	var out []refusal
	for _, line := range []string{"as-uid: x", "as-groups: [x]", "as-user-extra: {x: [y]}"} {
		field, _, _ := strings.Cut(line, ":")
		file := build([]string{"server: https://a"}, []string{"token: t", line})
		out = append(out,
			refusal{field, file, nil, []string{"users[0].user." + field + ": is refused: it acts in the name of another user; use that user's own credential, or add impersonation to clusters[0].allowInKubeconfig"}},
			refusal{field + " alone", file, []Feature{Impersonation}, []string{"users[0].user." + field + ": has no meaning without as; give the user's name"}})
	}
	return out
}

// allowedButWrong use a feature that is allowed, in a way that cannot work or is
// still unsafe.
func allowedButWrong(ca []byte) []refusal {
	server := "server: https://10.0.0.1:6443"
	return []refusal{
		{"insecure with a CA", build([]string{server, "insecure-skip-tls-verify: true", "certificate-authority-data: " + encoded(ca)}, []string{"token: t"}), []Feature{InsecureSkipTLSVerify}, []string{
			"clusters[0].cluster.insecure-skip-tls-verify: contradicts the certificate authority; keep one of the two",
		}},
		{"a proxy of another scheme", build([]string{server, "proxy-url: ftp://" + secret}, []string{"token: t"}), []Feature{ProxyURL}, []string{
			"clusters[0].cluster.proxy-url: is not the URL of a proxy; write http://, https:// or socks5:// and the host",
		}},
		{"files that are not there", build([]string{server, "certificate-authority: ca.pem"}, []string{"client-certificate: /abs/c.pem", "client-key: ../k.pem", "tokenFile: empty"}), []Feature{Files}, []string{
			"clusters[0].cluster.certificate-authority: /etc/tributary/ca.pem does not exist",
			"users[0].user.client-certificate: /abs/c.pem does not exist",
			"users[0].user.client-key: /etc/k.pem does not exist",
			"users[0].user.tokenFile: /etc/tributary/empty is empty",
		}},
		{"a CA given twice", build([]string{server, "certificate-authority: ca.pem", "certificate-authority-data: " + encoded(ca)}, []string{"token: t"}), []Feature{Files}, []string{
			"clusters[0].cluster.certificate-authority: is given twice: as a file and inline; keep certificate-authority-data",
		}},
		{"a program without path", build([]string{server}, []string{"exec: {command: aws, args: [" + secret + "], apiVersion: client.authentication.k8s.io/v1}"}), []Feature{Exec}, []string{
			"users[0].user.exec.command: is not an absolute path; write where the program is, beginning with /",
		}},
		{"a program beside the kubeconfig", build([]string{server}, []string{"exec: {command: ./aws, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always, env: [{value: " + secret + "}]}"}), []Feature{Exec}, []string{
			"users[0].user.exec.command: is not an absolute path; write where the program is, beginning with /",
			"users[0].user.exec.interactiveMode: asks for a terminal, and there is none; use Never",
			"users[0].user.exec.env: has a variable without a name",
		}},
		{"no program", build([]string{server}, []string{"exec: {interactiveMode: Sometimes}"}), []Feature{Exec}, []string{
			"users[0].user.exec.command: must be given; write the absolute path of the program",
			"users[0].user.exec.apiVersion: is not a version that the client library speaks; use client.authentication.k8s.io/v1",
			"users[0].user.exec.interactiveMode: is not known; use Never",
		}},
		{"a provider that is gone", build([]string{server}, []string{"auth-provider: {name: gcp, config: {access-token: " + secret + "}}", "exec: {command: /a, apiVersion: client.authentication.k8s.io/v1}"}), []Feature{Exec, AuthProvider}, []string{
			"users[0].user.auth-provider: contradicts exec; keep one of the two",
			"users[0].user.auth-provider.name: is not a provider that the client library has; use oidc, or an exec plugin",
		}},
		{"a provider that reads a file", build([]string{server}, []string{"auth-provider: {name: oidc, config: {idp-certificate-authority: ca.pem}}"}), []Feature{AuthProvider}, []string{
			"users[0].user.auth-provider.config.idp-certificate-authority: is refused: it reads another file of this machine; put the content itself into idp-certificate-authority-data, or add files to clusters[0].allowInKubeconfig",
		}},
	}
}

// places are the lines and columns of faults.
var places = regexp.MustCompile(`(?m)^([^:\s]+)(?::\d+){1,2}`)

// TestRefusalsHavePlaces: in the kubeconfig as in the configuration.
func TestRefusalsHavePlaces(t *testing.T) {
	_, err := Accept([]byte(build([]string{"server: https://a", "proxy-url: http://p"}, []string{"exec: {command: /x}"})), request(nil))
	want := regexp.MustCompile(`^/etc/tributary/a.kubeconfig:\d+:\d+: clusters\[0\].cluster.proxy-url: .*\n/etc/tributary/a.kubeconfig:\d+:\d+: users\[0\].user.exec: `)
	if err == nil || !want.MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
}

func TestRefusals(t *testing.T) {
	ca, cert, key := certificates(t)
	for _, test := range refusals(ca, cert, key) {
		t.Run(test.name, func(t *testing.T) {
			r := request(map[string]string{"/etc/tributary/empty": ""}, test.allow...)
			accepted, err := Accept([]byte(test.file), r)
			if err == nil {
				t.Fatalf("accepted: %v", accepted)
			}
			var want strings.Builder
			for _, line := range test.want {
				want.WriteString(r.Path + ": " + line + "\n")
			}
			if got := places.ReplaceAllString(err.Error(), "$1") + "\n"; got != want.String() {
				t.Errorf("got\n%swant\n%s", got, &want)
			}
			if _, ok := errors.AsType[strict.Faults](err); !ok {
				t.Errorf("error is a %T", err)
			}
			for _, format := range []string{"%v", "%+v", "%#v", "%q"} {
				if text := fmt.Sprintf(format, err); strings.Contains(text, secret) {
					t.Errorf("%s of the error tells the secret: %s", format, text)
				}
			}
		})
	}
}

// TestUnknownContextNamesTheConfiguration: the fault lies where the context was
// asked for.
func TestUnknownContextNamesTheConfiguration(t *testing.T) {
	r := request(nil)
	r.Context = "prod"
	file := build([]string{"server: https://a"}, []string{"token: t"})
	for range 11 {
		file = strings.Replace(file, "contexts:\n", fmt.Sprintf("contexts:\n- name: x%d\n", len(file)), 1)
	}
	_, err := Accept([]byte(file), r)
	want := `tributary.yaml: clusters[0].context: "prod" is not a context of a.kubeconfig; its contexts are `
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), ", ...") {
		t.Errorf("got %v", err)
	}
	r.Owner, r.ConfigFile = "", ""
	_, err = Accept([]byte(build([]string{"server: https://a"}, nil)), r)
	want = `/etc/tributary/a.kubeconfig:5:1: contexts: "prod" is not a context of a.kubeconfig; its contexts are main`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestOtherContextsMayAskForAnything: one file often serves a person, with
// contexts that use exec, and Tributary, with one that does not.
func TestOtherContextsMayAskForAnything(t *testing.T) {
	file := build([]string{"server: https://a"}, []string{"token: t"}) + "- name: person\n  user: {exec: {command: aws}}\n"
	if _, err := Accept([]byte(file), request(nil)); err != nil {
		t.Error(err)
	}
}

// TestAcceptedAsClientcmd holds the client configuration against client-go's own.
func TestAcceptedAsClientcmd(t *testing.T) {
	ca, cert, key := certificates(t)
	server := "server: https://10.0.0.1:6443/k8s/"
	tests := []struct {
		name          string
		cluster, user []string
		allow         []Feature
	}{
		{"token", []string{server, "certificate-authority-data: " + encoded(ca), "disable-compression: true"}, []string{"token: abc"}, nil},
		{"certificate", []string{server, "certificate-authority-data: " + encoded(slices.Concat(ca, ca)), "tls-server-name: k"}, []string{"client-certificate-data: " + encoded(cert), "client-key-data: " + encoded(key)}, nil},
		{"certificate in a block", []string{server, "certificate-authority-data: |", "  " + encoded(ca)[:80], "  " + encoded(ca)[80:]}, []string{"token: abc"}, nil},
		{"password", []string{server}, []string{"username: u", "password: p"}, nil},
		{"unknown fields", []string{server, "shiny: true"}, []string{"token: abc", "sparkle: {a: b}"}, nil},
		{"plain http without credential", []string{"server: http://127.0.0.1:8001"}, nil, nil},
		{"plain http", []string{"server: http://127.0.0.1:8001"}, []string{"token: abc"}, nil},
		{"insecure", []string{server, "insecure-skip-tls-verify: true"}, []string{"token: abc"}, []Feature{InsecureSkipTLSVerify}},
		{"impersonation", []string{server}, []string{"token: abc", "as: a", "as-uid: b", "as-groups: [c]", "as-user-extra: {d: [e]}"}, []Feature{Impersonation}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := build(test.cluster, test.user)
			accepted, err := Accept([]byte(text), request(nil, test.allow...))
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			sameClient(t, accepted.REST, theirs)
			if accepted.REST.QPS != -1 {
				t.Errorf("QPS = %v", accepted.REST.QPS)
			}
		})
	}
}

// sameClient compares all but what Tributary decides otherwise.
func sameClient(t *testing.T, got, want *rest.Config) {
	t.Helper()
	got = rest.CopyConfig(got)
	got.QPS = want.QPS
	// client-go drops a lone slash at the end of the path; requests are the same.
	got.Host, want.Host = strings.TrimSuffix(got.Host, "/"), strings.TrimSuffix(want.Host, "/")
	a, b := fmt.Sprintf("%#v", unmasked(got)), fmt.Sprintf("%#v", unmasked(want))
	if a != b {
		t.Errorf("\ngot  %s\nwant %s", a, b)
	}
}

// unmasked is what a test compares, without rest.Config's masking of secrets.
func unmasked(c *rest.Config) any {
	return []any{
		c.Host, c.APIPath, c.Username, c.Password, c.BearerToken, c.BearerTokenFile, c.Impersonate.UserName, c.Impersonate.UID,
		c.Impersonate.Groups, c.Impersonate.Extra, c.Insecure, c.ServerName, c.CertFile, c.KeyFile, c.CAFile,
		string(c.CertData), string(c.KeyData), string(c.CAData), c.DisableCompression, c.Proxy == nil, c.ExecProvider == nil, c.AuthProvider == nil,
	}
}
