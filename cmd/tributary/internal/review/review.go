// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package review asks the ingress cluster whether whoever sends a request may: who he is by TokenReview, what he may by
// SubjectAccessReview, as an API server's own delegation does. What is not known is refused. Tokens are never kept:
// answers are remembered by their hash, for a minute, so that a scrape costs no request.
//
// Written by hand because the library that does it is the API server's, with 40 modules.
package review

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kube"
)

const (
	// remembered is how many answers are kept, and remember for how long.
	remembered = 256
	remember   = time.Minute
	// askTimeout bounds the requests for one answer, and asking how many are asked for at a time: strangers with made up
	// tokens must not load the ingress cluster.
	askTimeout = 5 * time.Second
	asking     = 4
	// longestToken is far above what any cluster issues.
	longestToken = 16 << 10
)

// errBusy is why a request is not looked at.
var errBusy = errors.New("too many unknown tokens at a time")

// Reviewer judges requests. Its methods may be called from any goroutine.
type Reviewer struct {
	version string
	logger  *slog.Logger
	answers *cache.LRUExpireCache
	slots   chan struct{}

	mu sync.Mutex
	// hash is that of the access which connection is made from, guarded by mu with it.
	hash       string
	connection *kube.Connection
	client     kubernetes.Interface
	// logged is the last failure that was said.
	logged string
}

// New returns a Reviewer that refuses everything until Use was called.
func New(version string, logger *slog.Logger) *Reviewer {
	return &Reviewer{version: version, logger: logger, answers: cache.NewLRUExpireCache(remembered), slots: make(chan struct{}, asking)}
}

// Use says through which access to ask from now on.
func (r *Reviewer) Use(access config.Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if access.REST == nil || access.Hash == r.hash {
		return
	}
	connection, err := kube.Connect(access.REST, kube.ConnectOptions{Cluster: "ingress", Version: r.version})
	if err != nil {
		r.logger.Error("tokens of requests for metrics cannot be reviewed", "error", err)
		return
	}
	if r.connection != nil {
		r.connection.Close()
	}
	r.hash, r.connection, r.client = access.Hash, connection, connection.Clientset()
	r.answers.RemoveAll(func(any) bool { return true }) // another cluster may know other tokens
}

// Close ends the connection.
func (r *Reviewer) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.connection != nil {
		r.connection.Close()
	}
	r.connection, r.client, r.hash = nil, nil, ""
}

// Require lets pass to next who may do this with a path that is no resource's. Others are answered 401 or 403, and 503
// where nobody can say.
func (r *Reviewer) Require(verb, path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		token, ok := bearer(request)
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		switch status, err := r.judge(request.Context(), token, verb, path); {
		case err != nil:
			r.log(err)
			http.Error(w, "the ingress cluster could not be asked whether you may", http.StatusServiceUnavailable)
		case status != http.StatusOK:
			http.Error(w, http.StatusText(status), status)
		default:
			next.ServeHTTP(w, request)
		}
	})
}

// bearer is the token of a request.
func bearer(request *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= longestToken
}

// question is what an answer is remembered by.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

// judge returns 200, 401 or 403.
func (r *Reviewer) judge(ctx context.Context, token, verb, path string) (int, error) {
	q := question{sha256.Sum256([]byte(token)), verb, path}
	if status, found := r.answers.Get(q); found {
		return status.(int), nil
	}
	r.mu.Lock()
	client := r.client
	r.mu.Unlock()
	if client == nil {
		return 0, errors.New("the ingress cluster is not reached")
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return 0, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := ask(ctx, client, token, verb, path)
	if err != nil {
		return 0, err
	}
	r.answers.Add(q, status, remember)
	r.log(nil)
	return status, nil
}

func ask(ctx context.Context, client kubernetes.Interface, token, verb, path string) (int, error) {
	who, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}
	for key, value := range user.Extra {
		spec.Extra[key] = authorizationv1.ExtraValue(value)
	}
	may, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("SubjectAccessReview: %w", err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// log says a failure once.
func (r *Reviewer) log(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.mu.Lock()
	news := text != "" && text != r.logged && !errors.Is(err, context.Canceled)
	r.logged = text
	r.mu.Unlock()
	if news {
		r.logger.Warn("a request for metrics is refused: its token could not be reviewed; grant system:auth-delegator", "error", text)
	}
}
