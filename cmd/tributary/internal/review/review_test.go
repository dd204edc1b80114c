// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"tributary.dev/tributary/clusters/config"
)

// cluster knows the tokens "prometheus", who may, and "guest", who may not; it fails for "outage". asked counts requests.
func cluster(asked *int) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		*asked++
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		if review.Spec.Token == "outage" {
			return true, nil, errors.New("no answer")
		}
		review.Status.Authenticated = review.Spec.Token == "prometheus" || review.Spec.Token == "guest"
		review.Status.User.Username = review.Spec.Token
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		*asked++
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		a := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "prometheus" && a != nil && a.Verb == "get" && a.Path == "/metrics"
		return true, review, nil
	})
	return client
}

func TestRequire(t *testing.T) {
	asked := 0
	r := New("", slog.New(slog.DiscardHandler))
	handler := r.Require("get", "/metrics", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	status := func(authorization string) int {
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request)
		return w.Code
	}
	if got := status("Bearer prometheus"); got != http.StatusServiceUnavailable {
		t.Errorf("before the ingress cluster is reached: %d", got)
	}
	r.client = cluster(&asked)
	for _, c := range []struct {
		header      string
		want, asked int
	}{
		{"", http.StatusUnauthorized, 0},
		{"Basic cHJvbWV0aGV1cw==", http.StatusUnauthorized, 0},
		{"Bearer ", http.StatusUnauthorized, 0},
		{"Bearer " + strings.Repeat("a", longestToken+1), http.StatusUnauthorized, 0},
		{"Bearer prometheus", http.StatusOK, 2},
		{"bearer prometheus", http.StatusOK, 0}, // remembered
		{"Bearer guest", http.StatusForbidden, 2},
		{"Bearer stranger", http.StatusUnauthorized, 1},
		{"Bearer stranger", http.StatusUnauthorized, 0},
		{"Bearer outage", http.StatusServiceUnavailable, 1},
		{"Bearer outage", http.StatusServiceUnavailable, 1}, // a failure is no answer
	} {
		asked = 0
		if got := status(c.header); got != c.want || asked != c.asked {
			t.Errorf("%.30q: %d after %d requests, want %d after %d", c.header, got, asked, c.want, c.asked)
		}
	}
	for range asking {
		r.slots <- struct{}{}
	}
	if status("Bearer other") != http.StatusServiceUnavailable || status("Bearer prometheus") != http.StatusOK {
		t.Error("while others are asked about, what is known is answered, and nothing else")
	}
	r.Use(config.Access{}) // refused: what there is stays
	r.Close()
	if got := status("Bearer new"); got != http.StatusServiceUnavailable {
		t.Errorf("after the end: %d", got)
	}
}
