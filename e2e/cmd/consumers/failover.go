// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 10 * time.Second}
}

// failover deletes all pods of the first of two members in the failover order: the second gets no request before the last
// ready endpoint of the first has ended, and all of them within a second afterwards.
func (w *world) failover(ctx context.Context, out io.Writer) error {
	for m := range w.fleet.Members {
		if err := w.deploy(ctx, m, failover, "app:0", podsOfArm/2, time.Second); err != nil {
			return err
		}
	}
	if err := w.serves(ctx, failover); err != nil {
		return err
	}
	for _, f := range fronts(failover) {
		l := startLoad(ctx, f, rate)
		fleet.Wait(ctx, settle)
		client := w.fleet.Members[0].Client
		if err := client.AppsV1().Deployments(failover).Delete(ctx, service, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := client.AppsV1().ReplicaSets(failover).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return err
		}
		ended := time.Now()
		if err := client.CoreV1().Pods(failover).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return err
		}
		fleet.Wait(ctx, 2*settle)
		t := l.stop()
		var early int
		var firstOfSecond, lastOfFirst time.Time
		for pod, n := range t.by {
			if strings.HasPrefix(pod, "idc-a/") {
				if t.last[pod].After(lastOfFirst) {
					lastOfFirst = t.last[pod]
				}
				continue
			}
			if t.first[pod].Before(ended) {
				early += n
			}
			if firstOfSecond.IsZero() || t.first[pod].Before(firstOfSecond) {
				firstOfSecond = t.first[pod]
			}
		}
		fmt.Fprintf(out, "failover, %s: %d requests, %d failed (%s); the reserve's first answer %d ms after the deletion, the first member's last %d ms; reserve asked before: %d\n",
			f.name, t.requests, t.failed, t, firstOfSecond.Sub(ended).Milliseconds(), lastOfFirst.Sub(ended).Milliseconds(), early)
		if early > 0 {
			return fmt.Errorf("%d requests reached the reserve while a ready endpoint was there", early)
		}
		if late := firstOfSecond.Sub(ended); firstOfSecond.IsZero() || late > time.Second+throttle {
			return fmt.Errorf("the reserve served %s after the last ready endpoint's end, want a second at most", late)
		}
		if err := w.deploy(ctx, 0, failover, "app:0", podsOfArm/2, time.Second); err != nil {
			return err
		}
		fleet.Wait(ctx, settle)
	}
	return nil
}
