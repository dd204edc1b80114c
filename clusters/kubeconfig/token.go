// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// AccountToken is what a JSON Web Token says (RFC 7519), and one of a service account of itself.
// It is not verified: that is for the server.
type AccountToken struct {
	Namespace, Account string
	Issued, Expires    time.Time
}

// RenewAt is when Tributary begins to ask for another: at the last third of its life.
func (t AccountToken) RenewAt() time.Time { return t.Expires.Add(-t.Expires.Sub(t.Issued) / 3) }

// ParseAccountToken reads a token of the TokenRequest API. False for every other: a password,
// or a token that does not expire.
func ParseAccountToken(token string) (AccountToken, bool) {
	t, ends := parse(token)
	return t, ends && t.Namespace != "" && t.Account != "" && t.Expires.After(t.Issued)
}

// parse reads any JSON Web Token; false for what is none, or does not end.
func parse(token string) (AccountToken, bool) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return AccountToken{}, false
	}
	var claims struct {
		Issued     float64 `json:"iat"`
		Expires    float64 `json:"exp"`
		Kubernetes struct {
			Namespace string `json:"namespace"`
			Account   struct {
				Name string `json:"name"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	of, ends := claims.Kubernetes, claims.Expires > 0 && max(claims.Issued, claims.Expires) < 1<<40
	return AccountToken{of.Namespace, of.Account.Name, time.Unix(int64(claims.Issued), 0), time.Unix(int64(claims.Expires), 0)}, err == nil && ends
}

// Expires is when the credential of a client configuration ends: its client certificate
// or its token, whichever is first. Zero: neither says, or comes from a program. A token
// file is read; one that cannot be read does not say.
func Expires(access *rest.Config) time.Time {
	token := access.BearerToken
	if access.BearerTokenFile != "" {
		if text, err := os.ReadFile(access.BearerTokenFile); err == nil {
			token = string(text)
		}
	}
	var first time.Time
	if certs, err := cert.ParseCertsPEM(access.CertData); err == nil {
		first = certs[0].NotAfter // the client's own
	}
	if t, ok := parse(token); ok && (first.IsZero() || t.Expires.Before(first)) {
		first = t.Expires.UTC()
	}
	return first
}

// WithToken is the kubeconfig with another token in the user of a context, the current one
// if it is empty.
func WithToken(data []byte, context, token string) ([]byte, error) {
	file, err := clientcmd.Load(data)
	if err != nil {
		return nil, errors.New("the kubeconfig cannot be read") // clientcmd's own error can quote it
	}
	context = cmp.Or(context, file.CurrentContext)
	if file.Contexts[context] == nil || file.AuthInfos[file.Contexts[context].AuthInfo] == nil {
		return nil, fmt.Errorf("the kubeconfig has no user of context %q", context)
	}
	user := file.AuthInfos[file.Contexts[context].AuthInfo]
	if user.TokenFile != "" { // which wins over an inline one
		return nil, fmt.Errorf("the user of context %q has a tokenFile: whatever writes that file renews it", context)
	}
	user.Token = token
	out, err := clientcmd.Write(*file)
	if err != nil {
		return nil, errors.New("the kubeconfig cannot be written")
	}
	return out, nil
}

// ReadFile reads a file. The error does not name it: the fault that is made of it does.
func ReadFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	return data, nameless(err)
}

// nameless drops the path from an error about a file.
func nameless(err error) error {
	if number, is := errors.AsType[syscall.Errno](err); is {
		return number
	}
	return err
}

// InCluster is the way to the cluster in which this process runs as a pod. read reads
// the cluster's CA, so that another one makes another hash; the token is read again by
// client-go.
func InCluster(read func(path string) ([]byte, error)) (*Accepted, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("name a kubeconfig of the ingress cluster: this process does not run in a cluster")
	}
	if err == nil && config.CAFile != "" {
		config.CAData, err = read(config.CAFile)
		config.CAFile = ""
	}
	if err != nil {
		return nil, fmt.Errorf("the service account of this process's pod cannot be used: %w", err)
	}
	config.QPS = -1
	return &Accepted{REST: config, Hash: fmt.Sprintf("in-cluster %x", sha256.Sum256(config.CAData))}, nil
}

// ReplaceFile puts a file in place at once, for its owner alone: a reader sees the old
// content or the new.
func ReplaceFile(path string, data []byte) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err == nil {
		_, err = next.Write(data)
		if err = errors.Join(err, next.Close()); err == nil {
			err = os.Rename(next.Name(), path)
		}
		if err != nil {
			_ = os.Remove(next.Name())
		}
	}
	if err != nil { // the other file has another name at each try
		return fmt.Errorf("replace %s, which must not be mounted by itself, and whose directory must be writable: %w", path, nameless(err))
	}
	return nil
}
