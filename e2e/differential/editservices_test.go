// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func selects(s *service) bool     { return !s.external && s.selector != nil }
func handWritten(s *service) bool { return !s.external && s.selector == nil }

func (w *world) createService(ctx context.Context) (bool, error) {
	if len(w.services) > *servicesFlag*5/4 {
		return false, nil
	}
	return true, w.makeService(ctx, w.someNamespace(), w.newServiceName())
}

func (w *world) makeService(ctx context.Context, namespace, name string) error {
	w.subject = key{namespace, name}
	s, o := w.newService(namespace, name)
	if err := w.member.Create(ctx, o); err != nil {
		return err
	}
	w.services = append(w.services, s)
	return nil
}

// deleteService leaves hand-written slices behind, which have no owner.
func (w *world) deleteService(ctx context.Context) (bool, error) {
	s := w.anyService(func(*service) bool { return len(w.services) > *servicesFlag*3/4 })
	if s == nil {
		return false, nil
	}
	return true, w.dropService(ctx, s)
}

func (w *world) dropService(ctx context.Context, s *service) error {
	w.services = slices.DeleteFunc(w.services, func(other *service) bool { return other == s })
	return w.member.Client.CoreV1().Services(s.namespace).Delete(ctx, s.name, metav1.DeleteOptions{})
}

// recreateService deletes a Service and at once creates another of the same name,
// possibly of another kind.
func (w *world) recreateService(ctx context.Context) (bool, error) {
	s := w.anyService(func(*service) bool { return true })
	if s == nil {
		return false, nil
	}
	if err := w.dropService(ctx, s); err != nil {
		return false, err
	}
	if err := w.makeService(ctx, s.namespace, s.name); err != nil {
		return false, err
	}
	w.services[len(w.services)-1].slices = s.slices
	return true, nil
}

// editService changes a Service that matches.
func (w *world) editService(ctx context.Context, match func(*service) bool, change func(*service, *corev1.ServiceSpec, *metav1.ObjectMeta)) (bool, error) {
	s := w.anyService(match)
	if s == nil {
		return false, nil
	}
	client := w.member.Client.CoreV1().Services(s.namespace)
	o, err := client.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	change(s, &o.Spec, &o.ObjectMeta)
	_, err = client.Update(ctx, o, metav1.UpdateOptions{})
	return true, err
}

func (w *world) editPorts(ctx context.Context) (bool, error) {
	return w.editService(ctx, func(s *service) bool { return !s.external }, func(s *service, spec *corev1.ServiceSpec, _ *metav1.ObjectMeta) {
		spec.Ports = w.somePorts()
		if s.headless && w.chance(30) {
			spec.Ports = nil
		}
	})
}

func (w *world) editSelector(ctx context.Context) (bool, error) {
	return w.editService(ctx, selects, func(s *service, spec *corev1.ServiceSpec, _ *metav1.ObjectMeta) {
		s.selector = w.someSelector()
		spec.Selector = maps.Clone(s.selector)
	})
}

func (w *world) editLabels(ctx context.Context) (bool, error) {
	return w.editService(ctx, func(*service) bool { return true }, func(_ *service, _ *corev1.ServiceSpec, meta *metav1.ObjectMeta) {
		meta.Labels = w.someLabels()
	})
}

func (w *world) editAnnotations(ctx context.Context) (bool, error) {
	return w.editService(ctx, func(*service) bool { return true }, func(_ *service, _ *corev1.ServiceSpec, meta *metav1.ObjectMeta) {
		meta.Annotations["example.com/note"] = fmt.Sprint(w.next)
	})
}

func (w *world) editPublish(ctx context.Context) (bool, error) {
	return w.editService(ctx, selects, func(_ *service, spec *corev1.ServiceSpec, _ *metav1.ObjectMeta) {
		spec.PublishNotReadyAddresses = !spec.PublishNotReadyAddresses
	})
}

// editFamilies adds or removes the second family.
func (w *world) editFamilies(ctx context.Context) (bool, error) {
	return w.editService(ctx, selects, func(_ *service, spec *corev1.ServiceSpec, _ *metav1.ObjectMeta) {
		if len(spec.IPFamilies) > 1 {
			spec.IPFamilyPolicy, spec.IPFamilies = new(corev1.IPFamilyPolicySingleStack), spec.IPFamilies[:1]
			spec.ClusterIPs = spec.ClusterIPs[:1]
			return
		}
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
	})
}

// editType makes a Service external, or undoes it.
func (w *world) editType(ctx context.Context) (bool, error) {
	return w.editService(ctx, func(s *service) bool { return s.external || selects(s) && !s.headless },
		func(s *service, spec *corev1.ServiceSpec, _ *metav1.ObjectMeta) {
			s.external = !s.external
			if !s.external {
				spec.Type, spec.ExternalName = corev1.ServiceTypeClusterIP, ""
				return
			}
			spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "elsewhere.example.com"
			spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = "", nil, nil, nil
			spec.InternalTrafficPolicy = nil
		})
}

// loseSelector makes the current Endpoints hand-written ones.
func (w *world) loseSelector(ctx context.Context) (bool, error) {
	return w.editService(ctx, selects, func(s *service, spec *corev1.ServiceSpec, _ *metav1.ObjectMeta) {
		s.selector, spec.Selector, s.endpoints = nil, nil, true
	})
}

func (w *world) gainSelector(ctx context.Context) (bool, error) {
	return w.editService(ctx, handWritten, func(s *service, spec *corev1.ServiceSpec, _ *metav1.ObjectMeta) {
		s.selector = w.someSelector()
		spec.Selector, s.endpoints = maps.Clone(s.selector), false
	})
}

func (w *world) editEndpoints(ctx context.Context) (bool, error) {
	s := w.anyService(handWritten)
	if s == nil {
		return false, nil
	}
	return true, w.writeEndpoints(ctx, s)
}

func (w *world) dropEndpoints(ctx context.Context) (bool, error) {
	s := w.anyService(func(s *service) bool { return handWritten(s) && s.endpoints })
	if s == nil {
		return false, nil
	}
	s.endpoints = false
	return true, ignoreNotFound(w.member.Client.CoreV1().Endpoints(s.namespace).Delete(ctx, s.name, metav1.DeleteOptions{}))
}

func (w *world) addSlice(ctx context.Context) (bool, error) {
	s := w.anyService(func(s *service) bool { return handWritten(s) && len(s.slices) < 3 })
	if s == nil {
		return false, nil
	}
	return true, w.writeSlice(ctx, s)
}

func (w *world) editSlice(ctx context.Context) (bool, error) {
	s := w.anyService(func(s *service) bool { return handWritten(s) && len(s.slices) > 0 })
	if s == nil {
		return false, nil
	}
	return true, w.rewriteSlice(ctx, s)
}

func (w *world) dropSlice(ctx context.Context) (bool, error) {
	s := w.anyService(func(s *service) bool { return len(s.slices) > 0 })
	if s == nil {
		return false, nil
	}
	return true, w.deleteSlice(ctx, s)
}
