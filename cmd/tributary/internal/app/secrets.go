// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/syncer"
)

const (
	// secretsEvery is the time between two looks at the Secrets that are members: there are
	// few, and what is listed anew each time needs no stream. secretsTimeout bounds one look.
	secretsEvery, secretsTimeout = time.Second, 15 * time.Second
)

// ReadSecrets lists the Secrets that are members of a configuration, by name.
func ReadSecrets(ctx context.Context, session *kube.Session, c *config.Config) (map[string]config.Secret, error) {
	objects, err := session.List(ctx, kube.Query{Resource: kube.Secrets, Namespace: c.Namespace, Labels: c.ClustersFrom.Secrets.Selector})
	if err != nil {
		return nil, fmt.Errorf("list the Secrets of members in %s: %w", c.Namespace, err)
	}
	return slimSecrets(c, objects...), nil
}

// slimSecrets is what is read of those objects that are Secrets with the labels of members.
func slimSecrets(c *config.Config, objects ...kube.Object) map[string]config.Secret {
	all := map[string]config.Secret{}
	selector, err := labels.Parse(c.ClustersFrom.Secrets.Selector)
	for _, object := range objects {
		if s, ok := object.(*corev1.Secret); ok && err == nil && selector.Matches(labels.Set(s.Labels)) {
			all[s.Name] = config.Secret{Namespace: s.Namespace, Name: s.Name, Settings: s.Annotations[config.SettingsAnnotation], Kubeconfig: s.Data[config.SecretKey]}
		}
	}
	return all
}

// secrets follows the Secrets that are members. What was read counts while nothing can be read.
type secrets struct {
	access  *kube.Access
	running func() *config.Loaded
	offer   func([]config.Secret)
	logger  *slog.Logger
	// known are those that were read last, by name; nil: none were.
	known map[string]config.Secret
	// problem is why the last look failed.
	problem string
}

// run looks at the Secrets until ctx ends.
func (s *secrets) run(ctx context.Context) {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		problem := text(s.look(ctx, s.running().Config))
		if problem != "" && problem != s.problem {
			s.logger.Error("the Secrets of members cannot all be read; members stay as they are", "error", problem)
		}
		s.problem = problem
	}, secretsEvery)
}

// look lists the Secrets. A member that the list lacks is asked for, and stays until the API
// server says that its Secret is not there, or has other labels.
func (s *secrets) look(ctx context.Context, c *config.Config) error {
	if c.ClustersFrom.Secrets == nil {
		s.known = nil
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, secretsTimeout)
	defer cancel()
	session, err := s.access.Get(ctx)
	if err != nil {
		return err
	}
	next, err := ReadSecrets(ctx, session, c)
	if err != nil {
		return err
	}
	for name, before := range s.known {
		if _, there := next[name]; there {
			continue
		}
		object, failed := session.Ask(ctx, kube.Secrets, syncer.Key{Namespace: c.Namespace, Name: name})
		if failed != nil {
			next[name], err = before, failed
		}
		maps.Copy(next, slimSecrets(c, object))
	}
	if !reflect.DeepEqual(s.known, next) { // nil equals no map
		s.known = next
		s.offer(slices.Collect(maps.Values(next)))
	}
	return err
}
