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
	// renewPause is the longest time in which no other token is asked for, should the last one not get into use.
	renewPause = time.Hour
)

// renewer renews the tokens of members before they end: those that a service account may ask for itself, by the
// TokenRequest API, as `tributary link` gives them. The new one is kept where the old one was, from where it is read
// like any other rotation.
type renewer struct {
	loaded func() *config.Loaded
	// leads reports whether this process may write.
	leads func() bool
	// ingress is the client by which this process writes to the ingress cluster while it may;
	// nil before that is reached.
	ingress func() kubernetes.Interface
	version string
	logger  *slog.Logger
	// ask and keep are replaced by tests.
	ask  func(ctx context.Context, access *rest.Config, t kubeconfig.AccountToken) (string, error)
	keep func(ctx context.Context, loaded *config.Loaded, cluster config.Cluster, token string) error
	// tried is how the last try for each member ended.
	tried map[string]renewal
}

// renewal is why the last try failed, empty if it did not, and when the next may be; zero: at the next look.
type renewal struct {
	failed string
	again  time.Time
}

// unkept is a failure of the place where a token is kept. The member has no part in it, and would only give more of them.
type unkept struct{ error }

func newRenewer(loaded func() *config.Loaded, leads func() bool, ingress func() kubernetes.Interface, o Options) *renewer {
	n := &renewer{loaded: loaded, leads: leads, ingress: ingress, version: o.Build.Version, logger: o.Logger, tried: map[string]renewal{}}
	n.ask, n.keep = n.request, n.store
	return n
}

// run renews until ctx ends.
func (n *renewer) run(ctx context.Context) {
	ticker := time.NewTicker(renewLook)
	defer ticker.Stop()
	for {
		n.renew(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// renew looks at every member once, in the process that leads.
func (n *renewer) renew(ctx context.Context) {
	if !n.leads() {
		return
	}
	loaded := n.loaded()
	for _, cluster := range loaded.Config.Clusters {
		access := loaded.Members[cluster.Name]
		if access.REST == nil || access.Err != nil && !access.RefusedSettings {
			continue // what is kept is not what is used
		}
		token, ok := kubeconfig.ParseAccountToken(access.REST.BearerToken)
		if !ok || !due(token, time.Now()) || time.Now().Before(n.tried[cluster.Name].again) {
			continue
		}
		err := n.renewOne(ctx, loaded, cluster, access, token)
		if ctx.Err() != nil {
			return
		}
		n.note(cluster.Name, token, err)
	}
}

// note logs how a try ended, a failure once, and notes when the next may be.
func (n *renewer) note(member string, t kubeconfig.AccountToken, err error) {
	var this renewal
	if err == nil || errors.As(err, new(unkept)) {
		this.again = time.Now().Add(min(renewPause, time.Until(t.Expires)/4)) // the shortest life leaves some tries, too
	}
	if err == nil {
		n.logger.Info("token renewed", "cluster", member)
	} else if this.failed = err.Error(); this.failed != n.tried[member].failed {
		n.logger.Warn("token not renewed, trying on; link the member again before it ends", "cluster", member, "ends", t.Expires.UTC(), "error", err)
	}
	n.tried[member] = this
}

// due reports whether a token is in the last third of its life, and not past it.
func due(t kubeconfig.AccountToken, now time.Time) bool {
	return now.After(t.RenewAt()) && now.Before(t.Expires)
}

func (n *renewer) renewOne(ctx context.Context, loaded *config.Loaded, cluster config.Cluster, access config.Access, t kubeconfig.AccountToken) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	if err := keeps(access, cluster.Context); err != nil {
		return unkept{fmt.Errorf("no token is asked for: %w", err)}
	}
	token, err := n.ask(ctx, access.REST, t)
	if err != nil {
		return err
	}
	if err := n.keep(ctx, loaded, cluster, token); err != nil {
		return unkept{err}
	}
	return nil
}

// request asks the member for another token of the same account and life.
func (n *renewer) request(ctx context.Context, access *rest.Config, t kubeconfig.AccountToken) (string, error) {
	connection, err := kube.Connect(access, kube.ConnectOptions{Cluster: "member", Version: n.version})
	if err != nil {
		return "", err
	}
	defer connection.Close()
	granted, err := connection.Clientset().CoreV1().ServiceAccounts(t.Namespace).CreateToken(ctx, t.Account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(t.Expires.Sub(t.Issued) / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of %s/%s: %w", t.Namespace, t.Account, err)
	}
	return granted.Status.Token, nil
}

// store puts a token where the old one was.
func (n *renewer) store(ctx context.Context, loaded *config.Loaded, cluster config.Cluster, token string) error {
	access := loaded.Members[cluster.Name]
	switch {
	case access.Secret != "":
		return n.storeInSecret(ctx, access.Secret, cluster.Context, token)
	case access.File != "":
		return storeInFile(access.File, cluster.Context, token)
	}
	return errors.New("the kubeconfig is kept nowhere")
}

func storeInFile(path, context, token string) error {
	text, err := fileWith(path, context, token)
	if err != nil {
		return err
	}
	return kubeconfig.ReplaceFile(path, text)
}

// keeps reports, before a token is asked for, why a file could not keep it. What a Secret takes is seen by writing it.
func keeps(access config.Access, context string) error {
	if access.File == "" {
		return nil
	}
	if _, err := fileWith(access.File, context, ""); err != nil {
		return err
	}
	if err := kubeconfig.Replaceable(access.File); err != nil {
		return fmt.Errorf("%w; or keep the kubeconfig in a Secret (tributary link --ingress-context)", err)
	}
	return nil
}

// NotRenewed is why a token that run would renew before it ends cannot be kept where it is; "" if it can be, or is none.
func NotRenewed(access config.Access, context string) string {
	if access.REST == nil {
		return ""
	}
	if _, renewed := kubeconfig.ParseAccountToken(access.REST.BearerToken); !renewed {
		return ""
	}
	if err := keeps(access, context); err != nil {
		return "its token cannot be renewed: " + err.Error()
	}
	return ""
}

// fileWith is the content of a kubeconfig with another token.
func fileWith(path, context, token string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if text, err = kubeconfig.WithToken(text, context, token); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}

func (n *renewer) storeInSecret(ctx context.Context, secret, context, token string) error {
	client := n.ingress()
	if client == nil {
		return errors.New("the ingress cluster is not reached")
	}
	namespace, name, _ := strings.Cut(secret, "/")
	api := client.CoreV1().Secrets(namespace)
	standing, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("renew the token in Secret %s: %w", secret, err)
	}
	text, err := kubeconfig.WithToken(standing.Data[config.SecretKey], context, token)
	if err != nil {
		return fmt.Errorf("renew the token in Secret %s: %w", secret, err)
	}
	standing.Data[config.SecretKey] = text
	// The version that was read is a precondition: an edit meanwhile wins.
	if _, err := api.Update(ctx, standing, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("renew the token in Secret %s: %w", secret, err)
	}
	return nil
}

// writeClient is the client of the session in use: what it changes passes the permit.
func (r *App) writeClient() kubernetes.Interface {
	if session := r.ingress.Load(); session != nil {
		return session.write.Clientset()
	}
	return nil
}

// mayWrite reports whether this process leads.
func (r *App) mayWrite() bool {
	session := r.ingress.Load()
	return session != nil && session.elector.State().Leading
}
