// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWebhookWithoutDryRunsHasRefusedNothing(t *testing.T) {
	if err := fmt.Errorf("checking: %w", apierrors.NewBadRequest(`admission webhook "w.example" does not support dry run`)); !NoDryRun(err) {
		t.Error("it is taken for a refusal of what is in the object")
	}
	if NoDryRun(apierrors.NewBadRequest("no")) || NoDryRun(nil) {
		t.Error("a refusal is taken for a webhook that is not asked")
	}
}

func TestRetryAfterIsTheLongestThatWasAskedFor(t *testing.T) {
	object := schema.GroupResource{Resource: "endpoints"}
	throttled := func(seconds int) error { return apierrors.NewTooManyRequests("slower", seconds) }
	plain := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusTooManyRequests}}
	forbidden := apierrors.NewForbidden(object, "web", errors.New("no"))
	starting := apierrors.NewServerTimeout(object, "update", 5)
	for _, c := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"none", nil, 0},
		{"no server", errors.New("cut"), 0},
		{"not asked", forbidden, 0},
		{"asked", throttled(3), 3 * time.Second},
		{"throttled without a time", plain, time.Second},
		{"asked for by a server that starts", fmt.Errorf("%w: %w", errNoList, starting), 5 * time.Second},
		{"of one write among several", errors.Join(fmt.Errorf("one: %w", forbidden), fmt.Errorf("two: %w", throttled(3)), fmt.Errorf("three: %w", throttled(2))), 3 * time.Second},
		{"asked for by a page before the server", throttled(3600), time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := RetryAfter(c.err); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
