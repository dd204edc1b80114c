// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
)

// Accepted is a way to reach a cluster.
type Accepted struct {
	// REST has no client-side limit and no user agent. It is shared: change a
	// rest.CopyConfig of it.
	REST *rest.Config
	// Hash identifies what REST is made from, with the content of the certificates and
	// keys that a file names, but not with other contexts of the file.
	Hash string
	// Context is the one that was used; empty in a cluster.
	Context string
	// Note is what an operator should know: the program that is run for a credential,
	// that the server's certificate is not verified, that current-context chose one of
	// several. Empty if there is nothing.
	Note string
}

// FromFile judges the text of an operator's kubeconfig file, which may use whatever
// client-go takes. Relative paths in it start at the directory of path. read reads the
// files that it names. No error quotes a value of the file but names of contexts,
// clusters and users.
func FromFile(path, context string, data []byte, read func(path string) ([]byte, error)) (*Accepted, field.ErrorList) {
	return nil, nil
}

// FromSecret judges the text of a kubeconfig that a Secret holds: inline certificates
// and tokens alone. Everything else is refused by the name of its field.
func FromSecret(context string, data []byte) (*Accepted, field.ErrorList) { return nil, nil }

// InCluster is the way to the cluster in which this process runs as a pod.
func InCluster(read func(path string) ([]byte, error)) (*Accepted, error) { return nil, nil }
