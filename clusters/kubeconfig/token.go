// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
)

// AccountToken is what a service account's token says of itself.
type AccountToken struct {
	Namespace, Account string
	// UID is the account's: a token ends with the account that it was given to, though
	// another gets its name.
	UID             types.UID
	Issued, Expires time.Time
}

// RenewAt is when Tributary begins to ask for another: at the last third of its life.
func (t AccountToken) RenewAt() time.Time { return t.Expires.Add(-t.Expires.Sub(t.Issued) / 3) }

// ParseAccountToken reads a token that the TokenRequest API gave. False for every other: a
// password, or a token that does not expire. Nothing is verified, the API server does that.
func ParseAccountToken(token string) (AccountToken, bool) {
	var claims struct {
		Issued     int64 `json:"iat"`
		Expires    int64 `json:"exp"`
		Kubernetes struct {
			Namespace string `json:"namespace"`
			Account   struct {
				Name string    `json:"name"`
				UID  types.UID `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if !readClaims(token, &claims) || claims.Kubernetes.Namespace == "" || claims.Kubernetes.Account.Name == "" || claims.Expires <= claims.Issued {
		return AccountToken{}, false
	}
	return AccountToken{
		Namespace: claims.Kubernetes.Namespace, Account: claims.Kubernetes.Account.Name, UID: claims.Kubernetes.Account.UID,
		Issued: time.Unix(claims.Issued, 0), Expires: time.Unix(claims.Expires, 0),
	}, true
}

// WithToken is the kubeconfig with another token in the user of a context, the current one
// if it is empty.
func WithToken(data []byte, context, token string) ([]byte, error) {
	file, err := clientcmd.Load(data)
	if err != nil {
		return nil, errors.New("the kubeconfig cannot be read") // clientcmd's words can hold its parts
	}
	if context == "" {
		context = file.CurrentContext
	}
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

// ReplaceFile puts a file in place at once, for its owner alone: a reader sees the old
// content or the new.
func ReplaceFile(path string, data []byte) error {
	next, err := os.CreateTemp(besides(path))
	if err != nil {
		return notReplaced(path, err)
	}
	defer os.Remove(next.Name()) // fails once it has its name
	_, err = next.Write(data)
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	return notReplaced(path, err)
}

// Replaceable reports why ReplaceFile cannot put a file there, by making another beside it,
// which goes at once.
func Replaceable(path string) error {
	next, err := os.CreateTemp(besides(path))
	if err == nil {
		err = errors.Join(next.Close(), os.Remove(next.Name()))
	}
	return notReplaced(path, err)
}

// besides is the directory of a file and the pattern of what is made there before it gets
// the file's name.
func besides(path string) (dir, pattern string) {
	return filepath.Dir(path), "." + filepath.Base(path) + "-*"
}

// notReplaced names the file that was meant, not the one beside it, which has another name
// at each try.
func notReplaced(path string, err error) error {
	if err == nil {
		return nil
	}
	if of, is := errors.AsType[*fs.PathError](err); is {
		err = of.Err
	}
	if of, is := errors.AsType[*os.LinkError](err); is {
		err = of.Err
	}
	return fmt.Errorf("replace %s, which must not be mounted by itself, and whose directory must be writable: %w", path, err)
}
