// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (w *world) startPod(ctx context.Context) (bool, error) {
	if len(w.pods) > w.most {
		return false, nil
	}
	p, o := w.newPod(w.someNamespace())
	p.ready = w.chance(60)
	w.pods = append(w.pods, p)
	if p.ready {
		return true, w.member.RunPods(ctx, o)
	}
	return true, w.member.StartPods(ctx, o)
}

// pendPod creates a pod that no kubelet has reported yet.
func (w *world) pendPod(ctx context.Context) (bool, error) {
	p, o := w.newPod(w.someNamespace())
	p.pending = true
	w.pods = append(w.pods, p)
	return true, w.member.Create(ctx, o)
}

func (w *world) readyPod(ctx context.Context) (bool, error) {
	p := w.anyPod(func(p *pod) bool { return p.lives() && !p.ready })
	if p == nil {
		return false, nil
	}
	p.ready = true
	return true, w.member.MarkReady(ctx, p.namespace, p.name)
}

// unreadyPod chooses a live pod, or one that terminates and fails its probe.
func (w *world) unreadyPod(ctx context.Context) (bool, error) {
	p := w.anyPod(func(p *pod) bool { return p.ready && !p.finished })
	if p == nil {
		return false, nil
	}
	p.ready = false
	return true, w.member.MarkNotReady(ctx, p.namespace, p.name)
}

func (w *world) flapPod(ctx context.Context) (bool, error) {
	p := w.anyPod(func(p *pod) bool { return p.lives() && p.ready })
	if p == nil {
		return false, nil
	}
	if err := w.member.MarkNotReady(ctx, p.namespace, p.name); err != nil {
		return false, err
	}
	return true, w.member.MarkReady(ctx, p.namespace, p.name)
}

func (w *world) relabelPod(ctx context.Context) (bool, error) {
	p := w.anyPod(func(*pod) bool { return true })
	if p == nil {
		return false, nil
	}
	return true, w.patchPod(ctx, p, fmt.Sprintf(`{"metadata":{"labels":{"app":%q,"tier":%q}}}`, w.app(), w.tier()))
}

// annotatePod makes a change without effect.
func (w *world) annotatePod(ctx context.Context) (bool, error) {
	p := w.anyPod(func(*pod) bool { return true })
	if p == nil {
		return false, nil
	}
	return true, w.patchPod(ctx, p, fmt.Sprintf(`{"metadata":{"annotations":{"example.com/seen":"%d"}}}`, w.next))
}

func (w *world) patchPod(ctx context.Context, p *pod, patch string) error {
	_, err := w.member.Client.CoreV1().Pods(p.namespace).Patch(ctx, p.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (w *world) readdressPod(ctx context.Context) (bool, error) {
	p := w.anyPod((*pod).lives)
	if p == nil {
		return false, nil
	}
	p.ips = w.someIPs()
	var list []string
	for _, ip := range p.ips {
		list = append(list, ip.IP)
	}
	return true, w.member.SetPodIPs(ctx, p.namespace, p.name, list...)
}

// finishPod ends a pod as an eviction or the end of a job does; Ready may stay
// True for a moment, and the address may be removed.
func (w *world) finishPod(ctx context.Context) (bool, error) {
	p := w.anyPod((*pod).lives)
	if p == nil {
		return false, nil
	}
	p.finished = true
	phase := corev1.PodFailed
	if w.chance(40) {
		phase = corev1.PodSucceeded
	}
	if err := w.member.SetPhase(ctx, p.namespace, p.name, phase); err != nil {
		return false, err
	}
	if w.chance(30) {
		return true, w.member.SetPodIPs(ctx, p.namespace, p.name)
	}
	return true, nil
}

func (w *world) terminatePod(ctx context.Context) (bool, error) {
	p := w.anyPod((*pod).lives)
	if p == nil {
		return false, nil
	}
	p.terminating = true
	return true, w.member.Terminate(ctx, p.namespace, p.name)
}

// endPod removes a terminating pod, as a kubelet does whose containers have ended, or
// a finished one, as a cleanup does.
func (w *world) endPod(ctx context.Context) (bool, error) {
	return w.removePod(ctx, func(p *pod) bool { return p.terminating || p.finished })
}

func (w *world) forcePod(ctx context.Context) (bool, error) {
	return w.removePod(ctx, func(p *pod) bool { return !p.terminating })
}

func (w *world) removePod(ctx context.Context, match func(*pod) bool) (bool, error) {
	p := w.anyPod(match)
	if p == nil {
		return false, nil
	}
	w.pods = slices.DeleteFunc(w.pods, func(other *pod) bool { return other == p })
	return true, w.member.Remove(ctx, p.namespace, p.name)
}
