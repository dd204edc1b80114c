// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // registers what an auth-provider may name
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	apiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// Accepted is a way to reach a cluster.
type Accepted struct {
	// REST has no client-side limit and no user agent. It is shared: change a
	// rest.CopyConfig of it.
	REST *rest.Config
	// Hash identifies what REST is made from, with the content of the certificates and
	// keys that a file names, but not with other contexts of the file. What a tokenFile or
	// a program says does not count: client-go asks them again by itself.
	Hash string
	// Context is the one that was used; empty in a cluster.
	Context string
	// Note is what an operator should know: the program that is run for a credential, that
	// the server is not verified. Empty if there is nothing.
	Note string
}

// FromFile judges the text of an operator's kubeconfig file, which may use whatever
// client-go takes. An empty context means current-context. Relative paths in the file
// start at the directory of path. read reads the files that it names.
func FromFile(path, context string, data []byte, read func(path string) ([]byte, error)) (*Accepted, field.ErrorList) {
	return judged(path, context, data, func(c *chosen) field.ErrorList { return c.inline(read) })
}

// FromSecret judges the text of a kubeconfig that a Secret holds: an address, inline
// certificates and a token. Everything else is refused by the name of its field.
func FromSecret(context string, data []byte) (*Accepted, field.ErrorList) {
	return judged("", context, data, (*chosen).refuse)
}

func judged(path, context string, data []byte, first func(*chosen) field.ErrorList) (*Accepted, field.ErrorList) {
	c, faults := load(path, context, data)
	if len(faults) == 0 {
		faults = first(c)
	}
	if len(faults) == 0 {
		faults = c.check()
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return c.accept()
}

// chosen is the part of a kubeconfig that is used. It holds secrets and is never
// formatted.
type chosen struct {
	Context string
	Cluster *api.Cluster
	User    *api.AuthInfo
	// The paths of the two in the file, such as users[admin].user.
	clusterAt, userAt *field.Path
}

// lineOf is where clientcmd says that a text is wrong: all of its message that cannot hold
// a part of the text.
var lineOf = regexp.MustCompile(`\bline \d+\b`)

// execExtension is the extension of a cluster that clientcmd hands to a program. The
// others are of other tools, which note in them when they last looked.
const execExtension = "client.authentication.k8s.io/exec"

// load finds the context, its cluster and its user.
func load(path, context string, data []byte) (*chosen, field.ErrorList) {
	file, err := clientcmd.Load(data)
	if err != nil {
		line := lineOf.FindString(err.Error())
		return nil, field.ErrorList{Whole(strings.TrimPrefix(line+": ", ": ") +
			"this is no kubeconfig: it is cut off, or has two entries of one name, or is of another kind; kubectl config view says more")}
	}
	c := &chosen{Context: cmp.Or(context, file.CurrentContext)}
	if c.Context == "" {
		return nil, field.ErrorList{field.Required(field.NewPath("current-context"), "set it, or name a context in the configuration; the file may be cut off")}
	}
	is := file.Contexts[c.Context]
	if is == nil {
		return nil, field.ErrorList{Detailed(field.NotFound(field.NewPath("contexts"), c.Context), "name a context that kubectl config get-contexts lists; the file may be cut off")}
	}
	at := field.NewPath("contexts").Key(c.Context).Child("context")
	c.Cluster, c.clusterAt = file.Clusters[is.Cluster], field.NewPath("clusters").Key(is.Cluster).Child("cluster")
	c.User, c.userAt = file.AuthInfos[is.AuthInfo], field.NewPath("users").Key(is.AuthInfo).Child("user")
	var faults field.ErrorList
	if c.Cluster == nil {
		faults = append(faults, Detailed(field.NotFound(at.Child("cluster"), is.Cluster), "name an entry of clusters; the file may be cut off"))
	}
	if c.User == nil {
		faults = append(faults, Detailed(field.NotFound(at.Child("user"), is.AuthInfo), "name an entry of users; the file may be cut off"))
	}
	if len(faults) > 0 {
		return nil, faults
	}
	c.Cluster.LocationOfOrigin, c.User.LocationOfOrigin = path, path
	maps.DeleteFunc(c.Cluster.Extensions, func(name string, _ runtime.Object) bool { return name != execExtension })
	c.User.Extensions = nil
	return c, nil
}

// file is a kubeconfig of what was chosen alone.
func (c *chosen) file() *api.Config {
	const name = "chosen"
	return &api.Config{
		Clusters: map[string]*api.Cluster{name: c.Cluster}, AuthInfos: map[string]*api.AuthInfo{name: c.User},
		Contexts: map[string]*api.Context{name: {Cluster: name, AuthInfo: name}}, CurrentContext: name,
	}
}

// accept turns what was chosen into a client configuration. Files that it names are
// inlined.
func (c *chosen) accept() (*Accepted, field.ErrorList) {
	used, _ := json.Marshal([]any{c.Cluster, c.User}) // both marshal without error
	out := &Accepted{Hash: fmt.Sprintf("%x", sha256.Sum256(used)), Context: c.Context, Note: c.note()}
	if c.User.Exec != nil {
		c.User.Exec.InteractiveMode = api.NeverExecInteractiveMode // nobody is there to ask
		c.User.Exec.StdinUnavailable = true
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*c.file(), "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err == nil {
		_, err = rest.TransportFor(config)
	}
	if err != nil { // which may quote what the file holds
		at := field.NewPath("contexts").Key(c.Context)
		return nil, field.ErrorList{secret(at, "the client library refuses what it names: a certificate or key is cut off or of another, or a field is not as it should be; kubectl with --kubeconfig and --context says why")}
	}
	config.QPS = -1
	if config.AuthProvider != nil {
		config.AuthConfigPersister = forget{}
	}
	out.REST = config
	return out, nil
}

func (c *chosen) note() string {
	var notes []string
	if e := c.User.Exec; e != nil {
		notes = append(notes, "runs "+e.Command+" for its credential")
	}
	if p := c.User.AuthProvider; p != nil {
		notes = append(notes, "uses the auth provider "+p.Name)
	}
	if c.Cluster.InsecureSkipTLSVerify {
		notes = append(notes, "does not verify the server")
	}
	return strings.Join(notes, "; ")
}

// forget keeps a refreshed credential in memory only: a kubeconfig is never written to,
// and client-go's oidc provider demands a persister.
type forget struct{}

// Persist implements rest.AuthProviderConfigPersister.
func (forget) Persist(map[string]string) error { return nil }

// Whole is a fault of a file as a whole.
func Whole(detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: detail}
}

// secret is a fault of a value that must not be shown.
func secret(at *field.Path, detail string) *field.Error {
	return field.Invalid(at, field.OmitValueType{}, detail)
}

// Detailed says, too, what helps against a fault whose kind has no room for it.
func Detailed(fault *field.Error, detail string) *field.Error {
	fault.Detail = detail
	return fault
}

// What a kubeconfig from a Secret may hold, as a file has it. Whoever writes the Secret
// could run programs and read files of the machine that reads it, or send credentials to
// another host, by the other fields, those among them that client-go will learn.
var (
	allowedOfCluster = []string{"server", "tls-server-name", "certificate-authority-data", "disable-compression"}
	allowedOfUser    = []string{"token", "client-certificate-data", "client-key-data"}
)

// refuse names every field in use that a Secret may not use.
func (c *chosen) refuse() (faults field.ErrorList) {
	c.Cluster.Extensions = nil
	var cluster apiv1.Cluster
	var user apiv1.AuthInfo
	err := errors.Join(apiv1.Convert_api_Cluster_To_v1_Cluster(c.Cluster, &cluster, nil), apiv1.Convert_api_AuthInfo_To_v1_AuthInfo(c.User, &user, nil))
	for _, part := range []struct {
		at      *field.Path
		of      any
		allowed []string
	}{{c.clusterAt, &cluster, allowedOfCluster}, {c.userAt, &user, allowedOfUser}} {
		used, wrong := runtime.DefaultUnstructuredConverter.ToUnstructured(part.of)
		if err != nil || wrong != nil { // which plain structs never are
			return field.ErrorList{secret(part.at, "cannot be read")}
		}
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if !slices.Contains(part.allowed, name) {
				faults = append(faults, field.Forbidden(part.at.Child(name), "a kubeconfig from a Secret may have here nothing but "+strings.Join(part.allowed, ", ")))
			}
		}
	}
	return faults
}

// inline puts the certificates and keys that an operator's file names in the place of
// their names: what was checked is what is used, and another content makes another hash.
// A tokenFile is left to client-go, which reads it again every minute. It is read here so that
// one that is written later is noticed.
func (c *chosen) inline(read func(path string) ([]byte, error)) (faults field.ErrorList) {
	if err := clientcmd.ResolveLocalPaths(c.file()); err != nil {
		return field.ErrorList{Whole(err.Error())}
	}
	content := func(at *field.Path, path string) []byte {
		data, err := read(path)
		if err == nil && len(data) == 0 {
			err = errors.New("is empty")
		}
		if err != nil {
			faults = append(faults, Detailed(field.NotFound(at, path), err.Error()))
		}
		return data
	}
	for _, f := range []struct {
		at   *field.Path
		path *string
		data *[]byte
	}{
		{c.clusterAt.Child("certificate-authority"), &c.Cluster.CertificateAuthority, &c.Cluster.CertificateAuthorityData},
		{c.userAt.Child("client-certificate"), &c.User.ClientCertificate, &c.User.ClientCertificateData},
		{c.userAt.Child("client-key"), &c.User.ClientKey, &c.User.ClientKeyData},
	} {
		if *f.path != "" && len(*f.data) == 0 { // inline data counts before a file
			*f.data = content(f.at, *f.path)
		}
		*f.path = ""
	}
	if c.User.TokenFile != "" {
		content(c.userAt.Child("tokenFile"), c.User.TokenFile)
	}
	return faults
}

// check finds what clientcmd would let pass.
func (c *chosen) check() (faults field.ErrorList) {
	u := c.User
	server, err := url.Parse(c.Cluster.Server)
	if err != nil || server.Scheme != "https" && server.Scheme != "http" || server.Hostname() == "" || server.RawQuery+server.Fragment != "" || server.User != nil {
		// It is not quoted, for it may hold a password.
		faults = append(faults, secret(c.clusterAt.Child("server"), "write the URL of the API server, such as https://10.0.0.1:6443, without a user's name or password"))
	}
	// net/http would refuse it in a header at every request, much later.
	if strings.ContainsFunc(u.Token, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		faults = append(faults, secret(c.userAt.Child("token"), "holds a blank, line break or control character; write it as one line of plain text"))
	}
	hasCredential := u.Token != "" || u.TokenFile != "" || u.Username != "" || u.Exec != nil || u.AuthProvider != nil || len(u.ClientCertificateData) > 0
	if !hasCredential && len(faults) == 0 && rest.IsConfigTransportTLS(rest.Config{Host: c.Cluster.Server}) {
		faults = append(faults, field.Required(c.userAt, "holds no credential: give a token or a client certificate; the file may be cut off"))
	}
	return faults
}
