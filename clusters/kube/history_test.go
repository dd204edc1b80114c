// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/internal/memnet"
)

// Whatever is cut, frozen, expired, refused, restored or exchanged: at the end the sink has
// what the server has, and nothing was reported that the server did not have.
func TestRandomHistories(t *testing.T) {
	for seed := range dice.Seeds(t, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d := dice.From(seed, 7)
			play(t, d.IntN(2) == 0, func(m *model) {
				for i := range d.IntN(700) {
					m.set(fmt.Sprintf("p%04d", i), "0")
				}
			}, func(s *scene) {
				h := history{scene: s, d: d}
				for range 100 {
					h.step()
				}
				h.calm()
				s.pass(2 * time.Minute)
				s.wantPicture()
				lists := s.count("list")
				s.told()
				s.pass(time.Minute)
				s.wantTold()
				s.wantCount("list", lists)
				s.wantPhase("following")
			})
		})
	}
}

// history is what happens to a server and to the way to it.
type history struct {
	*scene
	d       *rand.Rand
	restore func(uint64)
}

func (h *history) step() {
	switch h.d.IntN(18) {
	case 0:
		h.net.Cut()
	case 1:
		h.drop()
	case 2:
		h.freeze()
	case 3:
		h.expire()
	case 4:
		h.net.Lead([]memnet.Way{memnet.Open, memnet.Closing, memnet.Nobody}[h.d.IntN(3)])
	case 5:
		h.trouble()
	case 6:
		h.follower.Relist()
	case 7:
		h.restore = h.snapshot()
	case 8:
		if h.restore != nil { // whatever had been seen since is lost
			h.pass(0)
			h.restore([]uint64{0, 1 << 20}[h.d.IntN(2)])
			h.restore = nil
			h.calm()
			h.pass(2 * time.Minute) // a store that went back is found before it has caught up
		}
	case 9:
		h.renew()
	case 10:
		h.do(func() { h.slow = time.Duration(h.d.IntN(3)) * time.Second })
	case 11:
		h.net.Freeze()
		h.pass(time.Duration(h.d.IntN(30)) * time.Second)
		h.net.Thaw()
	case 12:
		h.calm()
	default:
		for range h.d.IntN(20) {
			h.change()
		}
	}
	h.pass(time.Duration(h.d.IntN(8)*h.d.IntN(8)*h.d.IntN(1000)) * time.Millisecond)
}

func (h *history) change() {
	name := fmt.Sprintf("p%04d", h.d.IntN(700))
	if h.d.IntN(3) == 0 {
		h.remove(name)
	} else {
		h.set(name, fmt.Sprint(h.d.IntN(1000)))
	}
}

// trouble has some requests answered by errors.
func (h *history) trouble() {
	status := []*metav1.Status{
		forbidden(), statusOf(apierrors.NewUnauthorized("")), statusOf(apierrors.NewTooManyRequests("busy", 2)),
		statusOf(apierrors.NewInternalError(fmt.Errorf("etcd"))), statusOf(apierrors.NewResourceExpired("too old")),
	}[h.d.IntN(5)]
	verb, often := []string{"list", "page", "watch", "probe", "identity"}[h.d.IntN(5)], h.d.IntN(100)
	seed := h.d.Uint64()
	h.do(func() {
		d := dice.From(seed, 0)
		h.answer = func(_ *http.Request, asked string) *metav1.Status {
			h.mu.Lock()
			defer h.mu.Unlock()
			if asked == verb && d.IntN(100) < often {
				return status.DeepCopy()
			}
			return nil
		}
	})
}

// calm ends all trouble.
func (h *history) calm() {
	h.net.Lead(memnet.Open)
	h.do(func() { h.answer, h.slow = nil, 0 })
}
