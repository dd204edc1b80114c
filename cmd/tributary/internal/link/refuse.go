// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"tributary.dev/tributary/clusters/kubeconfig"
)

// refused says why nothing may be done, before anything is: what is kept is not link's, the cluster is not the one that
// is kept, or its account is another member's.
func (o Options) refused(ctx context.Context, kept kept) error {
	var token kubeconfig.AccountToken
	if kept.found {
		made := false
		if token, _, made = o.made(kept); !made {
			return fmt.Errorf("%s is there and is not the kubeconfig of %s that link made for the account %s/%s: %s", o.Keep, o.Name, o.Namespace, o.Account, o.Keep.makeRoom())
		}
	}
	if err := o.account().elsewhere(ctx, o.Objects); err != nil {
		return err
	}
	account, err := o.findAccount(ctx)
	if err != nil {
		return err
	}
	known := false
	if account != nil {
		known = account.GetUID() == token.UID
		if member := account.GetAnnotations()[memberAnnotation]; member != "" && member != o.Name {
			return fmt.Errorf("the account %s/%s of this cluster is that of member %s: give the --context of %s, or another --account if it is the same cluster", o.Namespace, o.Account, member, o.Name)
		}
	}
	if kept.found && !known && !o.Server.isIn(kept.text) {
		return fmt.Errorf("%s leads to another cluster than %s, and its account is not there: give the --context of %s; if that cluster is gone, %s", o.Keep, o.Server.URL, o.Name, o.Keep.makeRoom())
	}
	return nil
}

// keptElsewhere says that the account would lose its rights while Tributary still follows the member by it.
func (o Options) keptElsewhere() error {
	return fmt.Errorf("no kubeconfig in %s, and the account %s/%s is there: say where link put the kubeconfig, by --file or --ingress-context and --ingress-namespace, or that it is gone already, by --no-kubeconfig", o.Keep, o.Namespace, o.Account)
}

// findAccount is the account in the member, nil if it has none.
func (o Options) findAccount(ctx context.Context) (*unstructured.Unstructured, error) {
	account, err := o.Objects.Resource(resourceOf("ServiceAccount")).Namespace(o.Namespace).Get(ctx, o.Account, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("account %s/%s: %w", o.Namespace, o.Account, err)
	}
	return account, nil
}

// made reports whether what is kept is what Server.kubeconfig makes for this member, with a token of its account, and
// nothing else. text is the token itself.
func (o Options) made(kept kept) (token kubeconfig.AccountToken, text string, ok bool) {
	file, err := clientcmd.Load(kept.text)
	if err != nil || kept.more || len(file.Clusters) != 1 || len(file.Contexts) != 1 || len(file.AuthInfos) != 1 || file.Contexts[o.Name] == nil || file.AuthInfos[o.Account] == nil {
		return token, "", false
	}
	text = file.AuthInfos[o.Account].Token
	token, ok = kubeconfig.ParseAccountToken(text)
	return token, text, ok && token.Namespace == o.Namespace && token.Account == o.Account
}

// isIn reports whether a kubeconfig leads to this server.
func (s Server) isIn(text []byte) bool {
	accepted, err := kubeconfig.Accept(text, kubeconfig.Request{})
	return err == nil && accepted.REST.Host == s.URL && accepted.REST.ServerName == s.TLSServerName && bytes.Equal(accepted.REST.CAData, s.CA)
}
