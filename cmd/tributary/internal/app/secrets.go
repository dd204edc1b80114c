// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// secretSource is where members from Secrets are read: through which access, and which Secrets.
type secretSource struct {
	access              config.Access
	namespace, selector string
}

// secretSourceOf is that of a configuration; false where it wants none.
func secretSourceOf(loaded *config.Loaded) (secretSource, bool) {
	from := loaded.Config.ClustersFrom.Secrets
	if from == nil || loaded.Ingress.REST == nil {
		return secretSource{}, false
	}
	return secretSource{access: loaded.Ingress, namespace: cmp.Or(from.Namespace, loaded.Config.OwnNamespace()), selector: from.Selector}, true
}

func (s secretSource) equal(other secretSource) bool {
	return s.access.Hash == other.access.Hash && s.namespace == other.namespace && s.selector == other.selector
}

// SecretNamespace is where a configuration's members from Secrets are, "" if it wants none.
func SecretNamespace(loaded *config.Loaded) string {
	source, _ := secretSourceOf(loaded)
	return source.namespace
}

// ReadSecrets lists the Secrets that are members of a configuration, once.
func ReadSecrets(ctx context.Context, loaded *config.Loaded, version string) ([]config.Secret, error) {
	source, wanted := secretSourceOf(loaded)
	if !wanted {
		return nil, nil
	}
	connection, err := kube.Connect(source.access.REST, kube.ConnectOptions{Cluster: "ingress", Version: version})
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	list, err := connection.Clientset().CoreV1().Secrets(source.namespace).List(ctx, metav1.ListOptions{LabelSelector: source.selector})
	if err != nil {
		return nil, fmt.Errorf("list the Secrets of members in %s: %w", source.namespace, err)
	}
	secrets := []config.Secret{}
	for i := range list.Items {
		s, _ := slimSecret(&list.Items[i])
		secrets = append(secrets, s)
	}
	return secrets, nil
}

// secretMembers follows the Secrets that are members, as the configuration of the moment wants it. What was read stays
// what counts while nothing can be read.
type secretMembers struct {
	offer func([]config.Secret)
	// unread is told why they are not read, nil: they are followed.
	unread  func(error)
	version string
	logger  *slog.Logger
	// latest holds the configuration that counts, if it was not looked at yet.
	latest chan *config.Loaded
}

func newSecretMembers(offer func([]config.Secret), unread func(error), o Options) *secretMembers {
	return &secretMembers{offer: offer, unread: unread, version: o.Build.Version, logger: o.Logger, latest: make(chan *config.Loaded, 1)}
}

// use says which configuration counts. It is for one goroutine.
func (m *secretMembers) use(loaded *config.Loaded) {
	select {
	case <-m.latest:
	default:
	}
	m.latest <- loaded
}

// run follows until ctx ends.
func (m *secretMembers) run(ctx context.Context) {
	var (
		current secretSource
		stop    = func() {}
	)
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case loaded := <-m.latest:
			next, wanted := secretSourceOf(loaded)
			if next.equal(current) {
				continue
			}
			stop()
			m.unread(nil)
			current, stop = next, func() {}
			if wanted {
				stop = m.follow(ctx, next)
			}
		}
	}
}

// follow begins to follow; what it returns ends that, and waits for it.
func (m *secretMembers) follow(ctx context.Context, source secretSource) (stop func()) {
	connection, err := kube.Connect(source.access.REST, kube.ConnectOptions{Cluster: "ingress", Version: m.version})
	if err != nil {
		m.unread(err)
		m.logger.Error("Secrets of members are not read", "namespace", source.namespace, "error", err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	resource := kube.Secrets
	resource.Namespace = source.namespace
	client := connection.Clientset().CoreV1().RESTClient().(*rest.RESTClient)
	handler := &secretHandler{m: m, namespace: source.namespace, standing: map[string]config.Secret{}, lost: map[string]bool{}}
	handler.read = func(name string) (_ config.Secret, found bool, _ error) {
		ctx, cancel := context.WithTimeout(ctx, secretReadTimeout)
		defer cancel()
		return readSecret(ctx, connection.Clientset().CoreV1().Secrets(source.namespace), name, source.selector)
	}
	loop := kube.New(kube.Config[config.Secret]{
		Kind: "Secret", Convert: slimSecret, Options: metav1.ListOptions{LabelSelector: source.selector},
		Key:     func(s *config.Secret) syncer.Key { return syncer.Key{Namespace: s.Namespace, Name: s.Name} },
		Handler: handler,
	}, kube.REST(client, resource))
	handler.relist = loop.Relist
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer connection.Close()
		loop.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// secretReadTimeout bounds the read of one Secret.
const secretReadTimeout = 5 * time.Second

// readSecret reads one that is a member; not found: it is not there, or the selector does not match it any more.
func readSecret(ctx context.Context, client corev1client.SecretInterface, name, selector string) (_ config.Secret, found bool, _ error) {
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return config.Secret{}, false, nil
	}
	if err != nil {
		return config.Secret{}, false, err
	}
	wanted, err := labels.Parse(selector)
	if err != nil || !wanted.Matches(labels.Set(object.Labels)) {
		return config.Secret{}, false, err
	}
	s, _ := slimSecret(object)
	return s, true, nil
}

// slimSecret is what is kept of a Secret.
func slimSecret(object runtime.Object) (config.Secret, bool) {
	s, ok := object.(*corev1.Secret)
	if !ok {
		return config.Secret{}, false
	}
	return config.Secret{Namespace: s.Namespace, Name: s.Name, Annotations: s.Annotations, Kubeconfig: s.Data[config.SecretKey]}, true
}

// secretHandler gathers what a loop tells; it is for the loop's goroutine.
type secretHandler struct {
	m         *secretMembers
	namespace string
	standing  map[string]config.Secret
	// lost are members that a server lacks which went back in time: nobody deleted their Secrets.
	lost map[string]bool
	// read asks for one Secret; not found: it is no member. relist asks for a list.
	read   func(name string) (_ config.Secret, found bool, _ error)
	relist func()
	logged string
}

func (h *secretHandler) offer() { h.m.offer(slices.Collect(maps.Values(h.standing))) }

// Replaced implements kube.Handler. That a list lacks a member is soft evidence: it is asked for. A list that is older
// than what was seen tells nothing of any.
func (h *secretHandler) Replaced(items []config.Secret, r kube.Replacement) {
	next := make(map[string]config.Secret, len(items))
	for _, s := range items {
		next[s.Name] = s
	}
	if r.Older {
		for name := range h.standing {
			if _, there := next[name]; !there {
				h.lost[name] = true
				h.m.logger.Warn("an older list of Secrets lacks a member; it stays until its Secret is made again and deleted, or a restart", "cluster", name, "namespace", h.namespace)
			}
		}
		return
	}
	for name := range next {
		delete(h.lost, name)
	}
	for _, name := range sortedKeys(h.standing) {
		if _, there := next[name]; !there {
			if s, stays := h.absent(h.standing[name]); stays {
				next[name] = s
			}
		}
	}
	h.standing = next
	h.offer()
}

// absent is what becomes of a member that a list lacks.
func (h *secretHandler) absent(s config.Secret) (_ config.Secret, stays bool) {
	if h.lost[s.Name] {
		return s, true
	}
	now, found, err := h.read(s.Name)
	if err != nil {
		h.m.logger.Warn("a list of Secrets lacks a member, and it cannot be asked for; the member stays", "cluster", s.Name, "namespace", h.namespace, "error", err)
		if !kube.NotAllowed(err) {
			h.relist()
		}
		return s, true
	}
	return now, found
}

// Upserted implements kube.Handler.
func (h *secretHandler) Upserted(s config.Secret, _ kube.EventMeta) {
	delete(h.lost, s.Name)
	h.standing[s.Name] = s
	h.offer()
}

// Deleted implements kube.Handler.
func (h *secretHandler) Deleted(s config.Secret, _ kube.EventMeta) {
	delete(h.lost, s.Name)
	delete(h.standing, s.Name)
	h.offer()
}

// Contact implements kube.Handler.
func (h *secretHandler) Contact(time.Time, bool) {}

// Changed implements kube.Handler: it says once why nothing can be read.
func (h *secretHandler) Changed(s kube.State) {
	if s.Phase == kube.Following || s.Err != nil {
		h.m.unread(s.Err)
	}
	switch text := fmt.Sprint(s.Err); {
	case s.Phase == kube.Following:
		h.logged = ""
	case s.Phase == kube.Forbidden && text != h.logged:
		h.logged = text
		h.m.logger.Error("Secrets of members may not be read: grant list and watch there, or take clustersFrom away", "namespace", h.namespace, "error", text)
	}
}

// noteUnread notes why the Secrets of members are not read at the moment; nil: they are.
func (r *App) noteUnread(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secretsErr = err
}

// unreadSecrets says what is wrong with the Secrets of members: those that were never read, whatever the cause, and those
// that may not be read any more. The caller holds mu.
func (r *App) unreadSecrets() error {
	err := r.secretsErr
	if r.loaded.SecretsUnread && r.begun.Load() {
		err = cmp.Or(err, errors.New("there was no answer"))
	} else if !kube.NotAllowed(err) {
		return nil
	}
	return fmt.Errorf("clustersFrom.secrets: the Secrets of members in namespace %s cannot be read: %w; grant list and watch there, or take clustersFrom away", SecretNamespace(r.loaded), err)
}

// unfollowed are the members that stand, or are on record, and are not followed because no Secret was read yet. It walks
// over all replicas.
func (r *App) unfollowed(session *ingressSession, configured []config.Cluster, why error) (out []metrics.ClusterStatus) {
	names := session.reconciler.Clusters()
	r.mu.Lock()
	for name := range r.identities {
		names[name] = true
	}
	r.mu.Unlock()
	for _, c := range configured {
		delete(names, c.Name)
	}
	for _, name := range sortedKeys(names) {
		out = append(out, metrics.ClusterStatus{
			Name: name, State: string(evidence.Silent), Reason: string(evidence.ReasonKubeconfigRefused), Since: r.started.UTC(), LastError: "not followed: " + why.Error(),
		})
	}
	return out
}

// noteSecretsRead lets the start go on once a configuration has all of its members.
func (r *App) noteSecretsRead(loaded *config.Loaded) {
	if !loaded.SecretsUnread {
		r.secretsReadOnce.Do(func() { close(r.secretsRead) })
	}
}

// awaitSecrets waits until the members from Secrets are known, so that a start does not take them for clusters that
// left; not for ever, since those of the file need no Secret.
func (r *App) awaitSecrets(ctx context.Context) {
	r.noteSecretsRead(r.running())
	select {
	case <-r.secretsRead:
	case <-ctx.Done():
	case <-time.After(readyAfter):
		r.logger.Error("starting without the members that are Secrets: these have not been read yet")
	}
}
