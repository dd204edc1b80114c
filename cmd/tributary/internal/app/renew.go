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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/cmd/tributary/internal/link"
)

const (
	// renewLook is the time between two looks at the tokens. The shortest that Kubernetes issues live ten minutes.
	renewLook = time.Minute
	// renewTimeout bounds the requests for one member.
	renewTimeout = 20 * time.Second
)

// renewer renews the tokens of members before they end: those that a service account may ask for itself, by the
// TokenRequest API, as `tributary link` sets them up. The new one is stored where the old one was, from where it is
// read like any other rotation.
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
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		loaded := n.loaded()
		for _, cluster := range loaded.Config.Clusters {
			n.renew(ctx, cluster.Name, loaded.Members[cluster.Name])
		}
	}, renewLook)
}

// renew replaces a member's token in the last third of its life.
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
	switch err := n.replace(ctx, access, token); {
	case err == nil:
		n.logger.Info("token renewed", "cluster", member)
		delete(n.failed, member)
	case err.Error() != n.failed[member]:
		n.logger.Warn("token not renewed, trying on; link the member again before it ends, or keep its kubeconfig in a Secret (tributary link --ingress-context)",
			"cluster", member, "ends", token.Expires.UTC(), "error", err)
		n.failed[member] = err.Error()
	}
}

// replace asks the member for another token of the same account and life, and puts it where the old one was.
func (n *renewer) replace(ctx context.Context, access config.Access, t kubeconfig.AccountToken) error {
	session, err := kube.Open(ctx, access.REST, kube.Options{Version: n.version})
	if err != nil {
		return err
	}
	defer session.Close()
	granted, err := link.RequestToken(ctx, session.Clientset().CoreV1(), t.Namespace, t.Account, t.Expires.Sub(t.Issued))
	if err != nil {
		return err
	}
	switch {
	case access.Secret != "":
		return n.inSecret(ctx, access, granted.Token)
	case access.File == "":
		return errors.New("the kubeconfig is stored nowhere")
	}
	text, err := os.ReadFile(access.File)
	if err == nil {
		text, err = kubeconfig.WithToken(text, access.Context, granted.Token)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", access.File, err)
	}
	return kubeconfig.ReplaceFile(access.File, text)
}

// inSecret puts a token into a Secret of the ingress cluster.
func (n *renewer) inSecret(ctx context.Context, access config.Access, token string) error {
	client, err := n.ingress(ctx)
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(access.Secret, "/")
	api := client.CoreV1().Secrets(namespace)
	secret, err := api.Get(ctx, name, metav1.GetOptions{})
	var text []byte
	if err == nil {
		text, err = kubeconfig.WithToken(secret.Data[config.SecretKey], access.Context, token)
	}
	if err == nil {
		secret.Data[config.SecretKey] = text
		// The version that was read is a precondition: an edit meanwhile wins.
		_, err = api.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew the token in Secret %s: %w", access.Secret, err)
	}
	return nil
}
