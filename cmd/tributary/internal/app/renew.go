// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/kubeconfig"
)

const (
	// renewLook is the time between two looks at the tokens. The shortest that Kubernetes gives live ten minutes.
	renewLook = time.Minute
	// renewTimeout bounds the requests for one member.
	renewTimeout = 20 * time.Second
)

// renewer renews the tokens of members before they end: those that a service account may ask for itself, by the
// TokenRequest API, as `tributary link` gives them. The new one is stored where the old one was, from where it is read
// like any other rotation.
type renewer struct {
	loaded func() *config.Loaded
	// ingress is the client by which this process writes to the ingress cluster.
	ingress func(context.Context) (kubernetes.Interface, error)
	version string
	logger  *slog.Logger
	// failed is why the last try for each member failed.
	failed map[string]string
}

// run renews until ctx ends, which it does when this process leads no longer.
func (n *renewer) run(ctx context.Context) {
	ticker := time.NewTicker(renewLook)
	defer ticker.Stop()
	for ctx.Err() == nil {
		loaded := n.loaded()
		for _, cluster := range loaded.Config.Clusters {
			n.renew(ctx, cluster.Name, loaded.Members[cluster.Name])
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// renew gives a member another token if its own is in the last third of its life.
func (n *renewer) renew(ctx context.Context, member string, access config.Access) {
	if access.REST == nil {
		return
	}
	token, ok := kubeconfig.ParseAccountToken(access.REST.BearerToken)
	if now := time.Now(); !ok || now.Before(token.RenewAt()) || now.After(token.Expires) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	err := keepable(access)
	if err == nil {
		var fresh string
		if fresh, err = n.ask(ctx, access.REST, token); err == nil {
			err = n.keep(ctx, access, fresh)
		}
	}
	switch {
	case err == nil:
		n.logger.Info("token renewed", "cluster", member)
		delete(n.failed, member)
	case err.Error() != n.failed[member]:
		n.logger.Warn("token not renewed, trying on; link the member again before it ends", "cluster", member, "ends", token.Expires.UTC(), "error", err)
		n.failed[member] = err.Error()
	}
}

// ask asks the member for another token of the same account and life.
func (n *renewer) ask(ctx context.Context, access *rest.Config, t kubeconfig.AccountToken) (string, error) {
	session, err := kube.Open(ctx, access, kube.Options{Cluster: "member", Version: n.version})
	if err != nil {
		return "", err
	}
	defer session.Close()
	granted, err := session.Clientset().CoreV1().ServiceAccounts(t.Namespace).CreateToken(ctx, t.Account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(t.Expires.Sub(t.Issued) / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of %s/%s: %w", t.Namespace, t.Account, err)
	}
	return granted.Status.Token, nil
}

// keep puts a token where the old one was.
func (n *renewer) keep(ctx context.Context, access config.Access, token string) error {
	if access.Secret == "" {
		text, err := fileWith(access, token)
		if err != nil {
			return err
		}
		return kubeconfig.ReplaceFile(access.File, text)
	}
	client, err := n.ingress(ctx)
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(access.Secret, "/")
	api := client.CoreV1().Secrets(namespace)
	secret, err := api.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		secret.Data[config.SecretKey], err = kubeconfig.WithToken(secret.Data[config.SecretKey], access.Context, token)
	}
	if err == nil {
		// The version that was read is a precondition: an edit meanwhile wins.
		_, err = api.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew the token in Secret %s: %w", access.Secret, err)
	}
	return nil
}

// keepable reports, before a token is asked for, why a file could not keep it. What a Secret takes is seen by writing it.
func keepable(access config.Access) error {
	switch {
	case access.Secret != "":
		return nil
	case access.File == "":
		return errors.New("the kubeconfig is stored nowhere")
	}
	if _, err := fileWith(access, ""); err != nil {
		return err
	}
	if err := kubeconfig.Replaceable(access.File); err != nil {
		return fmt.Errorf("%w; or keep the kubeconfig in a Secret (tributary link --ingress-context)", err)
	}
	return nil
}

// NotRenewed is why a token that run would renew before it ends cannot be stored where it is; "" if it can be, or is none.
func NotRenewed(access config.Access) string {
	if access.REST == nil {
		return ""
	}
	if _, renewed := kubeconfig.ParseAccountToken(access.REST.BearerToken); !renewed {
		return ""
	}
	if err := keepable(access); err != nil {
		return "its token cannot be renewed: " + err.Error()
	}
	return ""
}

// fileWith is the content of a kubeconfig with another token.
func fileWith(access config.Access, token string) ([]byte, error) {
	text, err := os.ReadFile(access.File)
	if err != nil {
		return nil, err
	}
	if text, err = kubeconfig.WithToken(text, access.Context, token); err != nil {
		return nil, fmt.Errorf("%s: %w", access.File, err)
	}
	return text, nil
}
