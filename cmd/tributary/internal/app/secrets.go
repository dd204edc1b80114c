// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/syncer"
)

// secretReadTimeout bounds the read of one Secret, and secretPause is the time before a
// Secret about which nothing was learnt is asked for again.
const (
	secretReadTimeout = 5 * time.Second
	secretPause       = 2 * time.Second
)

// ReadSecrets lists the Secrets that are members of a configuration, once.
func ReadSecrets(ctx context.Context, session *kube.Session, c *config.Config) ([]config.Secret, error) {
	from := c.ClustersFrom.Secrets
	if from == nil {
		return nil, nil
	}
	objects, _, err := session.List(ctx, kube.Secrets, c.Namespace, from.Selector)
	if err != nil {
		return nil, fmt.Errorf("list the Secrets of members in %s: %w", c.Namespace, err)
	}
	secrets := []config.Secret{}
	for _, object := range objects {
		s, err := slimSecret(object)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, *s)
	}
	return secrets, nil
}

// slimSecret is what is kept of a Secret.
func slimSecret(object runtime.Object) (*config.Secret, error) {
	s, ok := object.(*corev1.Secret)
	if !ok {
		return nil, kube.ErrUndecodable
	}
	return &config.Secret{Namespace: s.Namespace, Name: s.Name, Settings: s.Annotations[config.SettingsAnnotation], Kubeconfig: s.Data[config.SecretKey]}, nil
}

// secrets follows the Secrets that are members: it is a kube.Sink. What was read counts
// while nothing can be read.
type secrets struct {
	access    *kube.Access
	namespace string
	selector  labels.Selector
	offer     func([]config.Secret)
	logger    *slog.Logger
	ctx       context.Context
	relist    func()
	known     map[string]config.Secret
	refused   bool
}

// followSecrets follows the Secrets that a configuration wants as members, until ctx ends.
func followSecrets(ctx context.Context, access *kube.Access, c *config.Config, offer func([]config.Secret), logger *slog.Logger) {
	selector, err := labels.Parse(c.ClustersFrom.Secrets.Selector)
	if err != nil {
		return // cannot happen: the configuration is valid
	}
	s := &secrets{access: access, namespace: c.Namespace, selector: selector, offer: offer, logger: logger, ctx: ctx, known: map[string]config.Secret{}}
	f := kube.NewFollower(kube.Kind[config.Secret]{Resource: kube.Secrets, Namespace: c.Namespace, Labels: selector.String(), Convert: slimSecret}, access, s, nil)
	s.relist = f.Relist
	f.Run(ctx)
}

func (s *secrets) tell() { s.offer(slices.Collect(maps.Values(s.known))) }

// Seen implements kube.Sink.
func (s *secrets) Seen(secret *config.Secret, _ uint64, _ time.Time) {
	s.known[secret.Name] = *secret
	s.tell()
}

// Gone implements kube.Sink.
func (s *secrets) Gone(key syncer.Key, _ string, _ uint64, _ time.Time) {
	delete(s.known, key.Name)
	s.tell()
}

// Listed implements kube.Sink. A member that the list lacks is asked for, and stays until
// the API server says that its Secret is not there.
func (s *secrets) Listed(all []kube.Versioned[config.Secret], _ uint64) {
	next := map[string]config.Secret{}
	for _, v := range all {
		if v.Object != nil {
			next[v.Key.Name] = *v.Object
		}
	}
	open := false
	for name, before := range s.known {
		if _, listed := next[name]; listed {
			continue
		}
		switch now, err := s.ask(name); {
		case err != nil:
			s.logger.Warn("a list of Secrets lacks a member, and it cannot be asked for; the member stays", "cluster", name, "error", err)
			next[name], open = before, true
		case now != nil:
			next[name] = *now
		}
	}
	s.known = next
	s.tell()
	if open {
		time.AfterFunc(secretPause, s.relist)
	}
}

// ask asks for one Secret; nil: it is not there, or no member.
func (s *secrets) ask(name string) (*config.Secret, error) {
	ctx, cancel := context.WithTimeout(s.ctx, secretReadTimeout)
	defer cancel()
	session, err := s.access.Get(ctx)
	if err != nil {
		return nil, err
	}
	object, err := session.Ask(ctx, kube.Secrets, syncer.Key{Namespace: s.namespace, Name: name})
	if err != nil || object == nil {
		return nil, err
	}
	if secret, ok := object.(*corev1.Secret); ok && !s.selector.Matches(labels.Set(secret.Labels)) {
		return nil, nil
	}
	return slimSecret(object)
}

// At implements kube.Sink.
func (s *secrets) At(uint64) {}

// Phase implements kube.Sink: it says once that the Secrets may not be read.
func (s *secrets) Phase(phase kube.Phase, err error) {
	if phase == kube.Refused && !s.refused {
		s.logger.Error("the Secrets of members may not be read: grant list and watch, or take clustersFrom away", "namespace", s.namespace, "error", err)
	}
	if phase == kube.Refused || phase == kube.Following {
		s.refused = phase == kube.Refused
	}
}

// WentBack implements kube.Sink. A list follows, and what it lacks is asked for.
func (s *secrets) WentBack() {}
