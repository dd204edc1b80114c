// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	api "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/client-go/util/cert"
)

// allowed reports whether the feature may be used, and reports a fault if not.
func (k *checker) allowed(feature Feature, field, does, instead string) bool {
	if slices.Contains(k.request.Allow, feature) {
		return true
	}
	remedy := instead
	if k.request.Owner != "" {
		remedy += ", or add " + string(feature) + " to " + k.request.Owner + ".allowInKubeconfig"
	}
	k.fault(field, "is refused: it "+does, remedy)
	return false
}

const inline = "put the content itself into "

// cluster checks the server's side.
func (k *checker) cluster(c *chosen) {
	at, cl := c.clusterAt, &c.Cluster
	k.server(at+".server", cl.Server)
	if cl.InsecureSkipTLSVerify &&
		k.allowed(InsecureSkipTLSVerify, at+".insecure-skip-tls-verify", "trusts whoever answers", "give certificate-authority-data") &&
		(cl.CertificateAuthority != "" || len(cl.CertificateAuthorityData) > 0) {
		k.fault(at+".insecure-skip-tls-verify", "contradicts the certificate authority", "keep one of the two")
	}
	if cl.ProxyURL != "" && k.allowed(ProxyURL, at+".proxy-url", "sends credentials through another host", "remove it") {
		k.proxy(at+".proxy-url", cl.ProxyURL)
	}
	ca := k.material(at+".certificate-authority", &cl.CertificateAuthority, &cl.CertificateAuthorityData)
	if len(ca) > 0 && !whole(ca) {
		k.fault(at+".certificate-authority-data", "is not a list of certificates in PEM", "the file may be cut off; write it again")
	}
}

// whole reports whether a text is certificates and none of them is cut off: Go's own pool would be content with the first.
func whole(text []byte) bool {
	certs, err := cert.ParseCertsPEM(text)
	return err == nil && len(certs) == bytes.Count(text, []byte("-----BEGIN CERT"))
}

// server demands an absolute URL. It is not quoted, for it may hold a password.
func (k *checker) server(field, server string) {
	if server == "" {
		k.fault(field, "must be given", "write the URL of the API server, such as https://10.0.0.1:6443")
		return
	}
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		k.fault(field, "is not the URL of an API server", "write one such as https://10.0.0.1:6443")
	case u.User != nil:
		k.fault(field, "holds a user name or password", "put the credential into the user's entry")
	}
}

func (k *checker) proxy(field, proxy string) {
	u, err := url.Parse(proxy)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		k.fault(field, "is not the URL of a proxy", "write http://, https:// or socks5:// and the host")
	}
}

// material is a PEM text that is given inline or, when that is allowed, as the
// name of a file, whose content then takes the place of the name: what was checked is
// what is used, and a file that changes makes another Accepted.
func (k *checker) material(field string, path *string, data *[]byte) []byte {
	if *path == "" {
		return *data
	}
	if len(*data) > 0 {
		k.fault(field, "is given twice: as a file and inline", "keep "+last(field)+"-data")
		return nil
	}
	*data = k.named(field, *path, inline+last(field)+"-data")
	*path = ""
	return *data
}

// named reads a file that the kubeconfig names, if that is allowed. A relative
// path starts at the kubeconfig's directory.
func (k *checker) named(field, path, instead string) []byte {
	if !k.allowed(Files, field, "reads another file of this machine", instead) {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(k.request.Path), path)
	}
	data, err := k.request.read(path)
	switch {
	case err != nil:
		k.fault(field, path+" "+err.Error(), "")
	case len(data) == 0:
		k.fault(field, path+" is empty", "")
	}
	return data
}

func last(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// user checks the client's side.
func (k *checker) user(c *chosen) {
	at, u := c.userAt, &c.User
	k.credential(at, c)
	k.certificate(at, u)
	k.token(at, u)
	k.impersonation(at, u)
	if u.Exec != nil && k.allowed(Exec, at+".exec", "runs a program on this machine", "use an inline token or client certificate") {
		k.exec(at+".exec", u.Exec)
	}
	if u.AuthProvider != nil && k.allowed(AuthProvider, at+".auth-provider", "runs a credential plugin", "use an inline token or client certificate") {
		k.authProvider(at+".auth-provider", u)
	}
}

// credential demands one: a file that is cut off after "user:" would otherwise
// be a stranger's. A plain connection carries none, so it needs none.
func (k *checker) credential(at string, c *chosen) {
	u := &c.User
	given := u.Token != "" || u.TokenFile != "" || u.Username != "" || u.Password != "" || u.Exec != nil || u.AuthProvider != nil ||
		u.ClientCertificate != "" || len(u.ClientCertificateData) > 0 || u.ClientKey != "" || len(u.ClientKeyData) > 0
	if !given && c.secure() {
		k.fault(at, "holds no credential", "give a token or client certificate; or the file may be cut off")
	}
}

func (k *checker) certificate(at string, u *api.AuthInfo) {
	before := len(k.faults)
	cert := k.material(at+".client-certificate", &u.ClientCertificate, &u.ClientCertificateData)
	key := k.material(at+".client-key", &u.ClientKey, &u.ClientKeyData)
	switch {
	case len(k.faults) > before || len(cert) == 0 && len(key) == 0:
	case len(cert) == 0:
		k.fault(at+".client-key-data", "comes without client-certificate-data", "give both")
	case len(key) == 0:
		k.fault(at+".client-certificate-data", "comes without client-key-data", "give both")
	default:
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			k.fault(at+".client-certificate-data", "and client-key-data are not a certificate and its key in PEM", "the file may be cut off; write it again")
		}
	}
}

func (k *checker) token(at string, u *api.AuthInfo) {
	field := at + ".token"
	if u.TokenFile != "" { // which wins over an inline one, as with kubectl
		field = at + ".tokenFile"
		u.Token = strings.TrimSpace(string(k.named(field, u.TokenFile, inline+"token")))
		u.TokenFile = ""
	}
	// net/http would refuse it in a header at every request, much later.
	if strings.ContainsFunc(u.Token, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		k.fault(field, "holds a blank, line break or control character", "write it again as one line of plain text")
	}
	if u.Token != "" && (u.Username != "" || u.Password != "") {
		k.fault(at, "holds both a token and a user name or password", "keep one of the two")
	}
}

func (k *checker) impersonation(at string, u *api.AuthInfo) {
	field := ""
	switch {
	case u.Impersonate != "":
		field = ".as"
	case u.ImpersonateUID != "":
		field = ".as-uid"
	case len(u.ImpersonateGroups) > 0:
		field = ".as-groups"
	case len(u.ImpersonateUserExtra) > 0:
		field = ".as-user-extra"
	default:
		return
	}
	if k.allowed(Impersonation, at+field, "acts in the name of another user", "use that user's own credential") && u.Impersonate == "" {
		k.fault(at+field, "has no meaning without as", "give the user's name")
	}
}

func (k *checker) exec(at string, e *api.ExecConfig) {
	switch {
	case e.Command == "":
		k.fault(at+".command", "must be given", "write the absolute path of the program")
	case !filepath.IsAbs(e.Command):
		// Neither the working directory nor PATH may decide what is run.
		k.fault(at+".command", "is not an absolute path", "write where the program is, beginning with /")
	}
	if e.APIVersion != "client.authentication.k8s.io/v1" && e.APIVersion != "client.authentication.k8s.io/v1beta1" {
		k.fault(at+".apiVersion", "is not a version that the client library speaks", "use client.authentication.k8s.io/v1")
	}
	switch e.InteractiveMode {
	case "", "Never", "IfAvailable":
	case "Always":
		k.fault(at+".interactiveMode", "asks for a terminal, and there is none", "use Never")
	default:
		k.fault(at+".interactiveMode", "is not known", "use Never")
	}
	if slices.ContainsFunc(e.Env, func(v api.ExecEnvVar) bool { return v.Name == "" }) {
		k.fault(at+".env", "has a variable without a name", "")
	}
}

// oidc is the one provider that client-go still has.
const oidc = "oidc"

func (k *checker) authProvider(at string, u *api.AuthInfo) {
	if u.Exec != nil {
		k.fault(at, "contradicts exec", "keep one of the two")
	}
	if u.AuthProvider.Name != oidc {
		k.fault(at+".name", "is not a provider that the client library has", "use "+oidc+", or an exec plugin")
		return
	}
	const key = "idp-certificate-authority"
	if path := u.AuthProvider.Config[key]; path != "" {
		data := k.named(at+".config."+key, path, inline+key+"-data")
		u.AuthProvider.Config[key+"-data"] = base64.StdEncoding.EncodeToString(data)
		delete(u.AuthProvider.Config, key)
	}
}
