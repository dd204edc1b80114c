// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // registers what an auth-provider may name
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
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
	c, faults := load(path, context, data)
	if len(faults) == 0 {
		faults = c.inline(read)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return c.accept()
}

// FromSecret judges the text of a kubeconfig that a Secret holds: an address, inline
// certificates and a token. Everything else is refused by the name of its field.
func FromSecret(context string, data []byte) (*Accepted, field.ErrorList) {
	c, faults := load("", context, data)
	if len(faults) == 0 {
		faults = c.refuse()
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

// lineOf is where clientcmd says that a text is wrong: all of its words that cannot hold
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
	if faults := c.check(); len(faults) > 0 {
		return nil, faults
	}
	out := &Accepted{Hash: c.hash(), Context: c.Context, Note: c.note()}
	if c.User.Exec != nil {
		c.User.Exec.InteractiveMode = api.NeverExecInteractiveMode // nobody is there to ask
		c.User.Exec.StdinUnavailable = true
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*c.file(), "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err == nil {
		_, err = rest.TransportFor(config)
	}
	if err != nil { // whose words may hold what the file holds
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

// hash covers all that is used; both types marshal without error.
func (c *chosen) hash() string {
	text, err := json.Marshal([]any{c.Cluster, c.User})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
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
