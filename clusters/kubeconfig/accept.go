// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	api "k8s.io/client-go/tools/clientcmd/api/v1"

	"tributary.dev/tributary/clusters/config/strict"
)

// Request says which kubeconfig is wanted, and who asks, so that a fault can
// name the field to mend.
type Request struct {
	// Path is the kubeconfig's file.
	Path string
	// Context to use; empty means current-context.
	Context string
	// Allow lists the features that are not refused.
	Allow []Feature
	// ConfigFile and Owner are the file and field that ask: "tributary.yaml" and
	// "clusters[0]". Both may be empty.
	ConfigFile string
	Owner      string
	// ReadFile reads the kubeconfig and, when Files is allowed, what it names. Nil
	// means the function ReadFile.
	ReadFile func(path string) ([]byte, error)
}

// Accepted is a way to reach a cluster. It may be formatted: rest.Config hides
// what is secret.
type Accepted struct {
	// REST has no client-side limit (QPS -1) and no user agent. Read-only: it is
	// shared; change a rest.CopyConfig of it.
	REST *rest.Config
	// Hash identifies what REST is made from: it changes exactly when the server,
	// the credential or another used field does, and not with other contexts of
	// the file. Files that a kubeconfig names count with what they hold.
	Hash string
	// Context is the one that was used; "" in a cluster.
	Context string
	// Among is of how many contexts current-context chose it; 0 where the request names it,
	// or the file has no other.
	Among int
}

func (r Request) read(path string) ([]byte, error) {
	if r.ReadFile != nil {
		return r.ReadFile(path)
	}
	return ReadFile(path)
}

// Unreadable is the fault of a kubeconfig that could not be read; err is worded
// as that of ReadFile.
func Unreadable(r Request, err error) strict.Fault {
	if r.Owner == "" {
		return strict.Fault{File: r.Path, Message: err.Error()}
	}
	return strict.Fault{File: r.ConfigFile, Field: r.Owner + ".kubeconfig", Message: fmt.Sprintf("%s %v", r.Path, err)}
}

// Accept decides about the text of a kubeconfig. The error is of type
// strict.Faults: all that is wrong with the file as a whole or, if it is well
// formed, with the chosen context, its cluster and its user. Other contexts of
// the file may ask for anything; they are not used.
//
// Nothing is read but, when Files is allowed, the files that the user and the
// cluster name.
func Accept(data []byte, r Request) (*Accepted, error) {
	var f api.Config
	if faults := strict.Decode(data, &f, strict.Foreign); len(faults) > 0 {
		if faults[0].Field == "" && faults[0].Remedy == "" {
			faults[0].Remedy = "the file may be cut off: write it to a new file and rename that"
		}
		return nil, faults.Locate(r.Path, data).In(r.Path)
	}
	k := checker{request: r}
	accepted := k.accept(&f)
	if len(k.faults) > 0 {
		return nil, k.faults.Locate(r.Path, data)
	}
	return accepted, nil
}

// accept returns nil where there are faults.
func (k *checker) accept(f *api.Config) *Accepted {
	if k.form(f); len(k.faults) > 0 {
		return nil
	}
	chosen, ok := k.choose(f)
	if !ok {
		return nil
	}
	k.cluster(&chosen)
	k.user(&chosen)
	if len(k.faults) > 0 {
		return nil
	}
	config, err := chosen.rest()
	if err != nil { // whose words may quote what the file holds
		k.fault(chosen.userAt, "is refused by the client library", "write the kubeconfig as kubectl does")
		return nil
	}
	accepted := &Accepted{REST: config, Hash: chosen.hash(), Context: chosen.context}
	if k.request.Context == "" && len(f.Contexts) > 1 {
		accepted.Among = len(f.Contexts)
	}
	return accepted
}

// chosen is the part of the file that is used; what it names in other files is put in
// its place. It holds secrets: it is never formatted.
type chosen struct {
	Cluster api.Cluster
	User    api.AuthInfo
	// The paths of the two in the file, such as users[0].user.
	clusterAt, userAt string
	// context is the name of the context that chose them.
	context string
}

// hash covers all used values. Both types marshal without error; []byte as
// base64, maps in the order of their keys.
func (c *chosen) hash() string {
	text, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// checker collects faults of one file.
type checker struct {
	request Request
	faults  strict.Faults
}

func (k *checker) fault(field, message, remedy string) {
	k.faults = append(k.faults, strict.Fault{File: k.request.Path, Field: field, Message: message, Remedy: remedy})
}

// form checks what concerns the file as a whole.
func (k *checker) form(f *api.Config) {
	if f.Kind != "" && f.Kind != "Config" || f.APIVersion != "" && f.APIVersion != "v1" {
		k.fault("", fmt.Sprintf("is a %q of %q, not a kubeconfig", f.Kind, f.APIVersion), `it must be a "Config" of "v1"`)
		return
	}
	unique(k, "contexts", f.Contexts, func(c api.NamedContext) string { return c.Name })
	unique(k, "clusters", f.Clusters, func(c api.NamedCluster) string { return c.Name })
	unique(k, "users", f.AuthInfos, func(u api.NamedAuthInfo) string { return u.Name })
}

// unique checks the names of a list. clientcmd refuses repeated ones too, by
// quoting the whole list, tokens included.
func unique[T any](k *checker, field string, items []T, name func(T) string) {
	first := make(map[string]int, len(items))
	for i, item := range items {
		if j, repeated := first[name(item)]; repeated {
			k.fault(fmt.Sprintf("%s[%d].name", field, i), fmt.Sprintf("repeats %s[%d].name", field, j), "keep one")
			continue
		}
		first[name(item)] = i
	}
}

// choose finds the context, its cluster and its user.
func (k *checker) choose(f *api.Config) (chosen, bool) {
	i, ok := k.context(f)
	if !ok {
		return chosen{}, false
	}
	at := fmt.Sprintf("contexts[%d].context", i)
	ctx := f.Contexts[i].Context
	c := slices.IndexFunc(f.Clusters, func(n api.NamedCluster) bool { return n.Name == ctx.Cluster })
	u := slices.IndexFunc(f.AuthInfos, func(n api.NamedAuthInfo) bool { return n.Name == ctx.AuthInfo })
	k.entry(at+".cluster", ctx.Cluster, "clusters", c)
	k.entry(at+".user", ctx.AuthInfo, "users", u)
	if c < 0 || u < 0 || len(k.faults) > 0 {
		return chosen{}, false
	}
	f.Clusters[c].Cluster.Extensions, f.AuthInfos[u].AuthInfo.Extensions = nil, nil // of other tools
	return chosen{
		context: f.Contexts[i].Name,
		Cluster: f.Clusters[c].Cluster, clusterAt: fmt.Sprintf("clusters[%d].cluster", c),
		User: f.AuthInfos[u].AuthInfo, userAt: fmt.Sprintf("users[%d].user", u),
	}, true
}

// entry reports a name that a context must give and its list must hold.
func (k *checker) entry(field, name, list string, found int) {
	switch {
	case name == "":
		k.fault(field, "must be given", "name an entry of "+list)
	case found < 0:
		k.fault(field, fmt.Sprintf("%q is not in %s", name, list), "the file may be cut off, or name another entry")
	}
}

// context is the index of the wanted context.
func (k *checker) context(f *api.Config) (int, bool) {
	r := k.request
	wanted, field := r.Context, "current-context"
	if wanted == "" {
		wanted = f.CurrentContext
	} else if field = "contexts"; r.Owner != "" {
		field = r.Owner + ".context"
	}
	if wanted == "" {
		k.fault("current-context", "is not set", "set it, or "+k.giveContext()+known(f))
		return 0, false
	}
	i := slices.IndexFunc(f.Contexts, func(c api.NamedContext) bool { return c.Name == wanted })
	if i >= 0 {
		return i, true
	}
	k.fault(field, fmt.Sprintf("%q is not a context of %s", wanted, filepath.Base(r.Path)), strings.TrimPrefix(known(f), "; "))
	if r.Context != "" && r.Owner != "" {
		k.faults[len(k.faults)-1].File = r.ConfigFile
	}
	return 0, false
}

func (k *checker) giveContext() string {
	if k.request.Owner == "" {
		return "name a context"
	}
	return "give " + k.request.Owner + ".context"
}

// known lists the contexts of the file, as many as are readable on one line.
func known(f *api.Config) string {
	const most = 10
	names := make([]string, 0, most)
	for _, c := range f.Contexts {
		if len(names) == most {
			names = append(names, "...")
			break
		}
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return "; the file has no contexts"
	}
	return "; its contexts are " + strings.Join(names, ", ")
}
