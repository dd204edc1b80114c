// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

// Feature is something a kubeconfig can ask for that is refused unless it is
// allowed by name.
type Feature string

// The features that are refused by default: all that make a kubeconfig more
// than an address and a credential.
const (
	// Exec runs a program on this machine to obtain a credential.
	Exec Feature = "exec"
	// AuthProvider uses a credential plugin built into the client library.
	AuthProvider Feature = "authProvider"
	// Files reads other files of this machine: CA, client certificate, key, token.
	Files Feature = "files"
	// InsecureSkipTLSVerify talks to whoever answers at the address.
	InsecureSkipTLSVerify Feature = "insecureSkipTLSVerify"
	// ProxyURL sends all requests through another host.
	ProxyURL Feature = "proxyURL"
	// Impersonation acts in the name of another user.
	Impersonation Feature = "impersonation"
)

// Features lists all of them, in the order of the documentation.
func Features() []Feature {
	return []Feature{Exec, AuthProvider, Files, InsecureSkipTLSVerify, ProxyURL, Impersonation}
}
