// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, k, ok := s.parse(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if k == nil {
		s.tell(w, r, req)
		return
	}
	body, err := io.ReadAll(inJSON(r).Body)
	if err != nil {
		return // the client left
	}
	if req.Verb == "create" {
		var object struct{ Metadata metav1.ObjectMeta }
		_ = json.Unmarshal(body, &object) // what is no object is refused below
		req.Name = object.Metadata.Name
	}
	fault := s.decide(req)
	if fault != nil && !fault.Do {
		s.fail(w, r, req, fault)
		return
	}
	if req.Verb == "watch" {
		s.watch(w, r, k, req)
		return
	}
	answer, code := s.serve(r, body, k, req)
	if fault != nil {
		s.fail(w, r, req, fault)
		return
	}
	s.record(req, code)
	respond(w, answer, code)
}

// decide asks the functions of Allow and of Intercept.
func (s *Server) decide(req Request) *Fault {
	if req.Verb != "ask" && req.Resource != "version" && !s.allowed(req) {
		return &Fault{Status: http.StatusForbidden}
	}
	s.mu.Lock()
	intercept := s.intercept
	s.mu.Unlock()
	if intercept == nil {
		return nil
	}
	return intercept(req)
}

// tell answers what a server says of itself, and of the client's rights.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, req Request) {
	if fault := s.decide(req); fault != nil {
		s.fail(w, r, req, fault)
		return
	}
	switch req.Resource {
	case "selfsubjectaccessreviews":
		var review authorizationv1.SelfSubjectAccessReview
		body, _ := io.ReadAll(inJSON(r).Body)
		if err := json.Unmarshal(body, &review); err != nil || review.Spec.ResourceAttributes == nil {
			http.Error(w, "no review of a resource", http.StatusBadRequest)
			return
		}
		a := review.Spec.ResourceAttributes
		review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
		review.Status.Allowed = s.allowed(Request{Verb: a.Verb, Resource: a.Resource, Namespace: a.Namespace, Name: a.Name, UserAgent: req.UserAgent})
		respond(w, &review, http.StatusCreated)
		return
	}
	respond(w, &version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0"}, http.StatusOK)
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, req Request, fault *Fault) {
	if fault.Hang {
		s.store.announce() // whoever waits for the hanging may look
		<-r.Context().Done()
	}
	if fault.Cut || fault.Hang {
		s.record(req, 0)
		panic(http.ErrAbortHandler)
	}
	s.record(req, fault.Status)
	if fault.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
	}
	status := &metav1.Status{Status: metav1.StatusFailure, Code: int32(fault.Status), Message: "fault"}
	switch {
	case fault.Status == http.StatusTooManyRequests:
		status.Reason = metav1.StatusReasonTooManyRequests
	case fault.Status == http.StatusForbidden: // by an authorizer; admission is Refuse
		status.Message = fmt.Sprintf("%s %q is forbidden: User %q cannot %s resource %q", req.Resource, req.Name, req.UserAgent, req.Verb, req.Resource)
	}
	respond(w, status, fault.Status)
}

func (s *Server) record(req Request, code int) {
	switch req.Verb {
	case "create", "update", "patch", "delete":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writes = append(s.writes, Write{Request: req, Code: code})
	}
}

// parse reads /version, where the kind is nil, /api/v1/... and
// /apis/discovery.k8s.io/v1/... paths.
func (s *Server) parse(r *http.Request) (req Request, k *kind, ok bool) {
	if r.URL.Path == "/version" {
		return Request{Verb: "get", Resource: "version", UserAgent: r.UserAgent()}, nil, true
	}
	if r.URL.Path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
		return Request{Verb: "ask", Resource: "selfsubjectaccessreviews", UserAgent: r.UserAgent()}, nil, true
	}
	group := ""
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api" && parts[1] == "v1":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis" && parts[2] == "v1":
		group, parts = parts[1], parts[3:]
	default:
		return req, nil, false
	}
	req.UserAgent = r.UserAgent()
	if parts[0] == "namespaces" && len(parts) > 2 {
		req.Namespace, parts = parts[1], parts[2:]
	}
	req.Resource = parts[0]
	if len(parts) > 1 {
		req.Name = parts[1]
	}
	k = kindOf(req.Resource)
	if k == nil || k.Group != group {
		return req, nil, false
	}
	req.Verb = verb(r, req.Name)
	return req, k, true
}

func verb(r *http.Request, name string) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	switch {
	case r.URL.Query().Get("watch") != "":
		return "watch"
	case name == "":
		return "list"
	}
	return "get"
}

func (s *Server) serve(r *http.Request, body []byte, k *kind, req Request) (answer any, code int) {
	n := name{Namespace: req.Namespace, Name: req.Name}
	switch req.Verb {
	case "get":
		return result(s.store.get(k, n))(http.StatusOK)
	case "list":
		return s.list(r, k, req.Namespace)
	case "delete":
		var options metav1.DeleteOptions
		if err := decode(body, &options); err != nil {
			return failure(err)
		}
		if err := s.store.delete(k, n, options.Preconditions); err != nil {
			return failure(err)
		}
		return &metav1.Status{Status: metav1.StatusSuccess}, http.StatusOK
	}
	obj := k.empty()
	if req.Verb == "patch" { // fields are replaced, lists not merged: enough for Events
		old, err := s.store.get(k, n)
		if err != nil {
			return failure(err)
		}
		obj = old.DeepCopyObject().(Object)
	}
	if err := decode(body, obj); err != nil {
		return failure(err)
	}
	n.Name = obj.GetName()
	if k.namespaced {
		obj.SetNamespace(n.Namespace)
	}
	if req.Verb == "create" {
		return result(s.store.create(k, n, obj))(http.StatusCreated)
	}
	return result(s.store.update(k, n, obj))(http.StatusOK)
}

func (s *Server) list(r *http.Request, k *kind, namespace string) (any, int) {
	items, rv := s.store.list(k, namespace)
	items = slices.DeleteFunc(items, func(o Object) bool { return !selects(r)(o) })
	return map[string]any{
		"kind": k.Kind + "List", "apiVersion": k.GroupVersion().String(),
		"metadata": metav1.ListMeta{ResourceVersion: strconv.FormatUint(rv, 10)}, "items": items,
	}, http.StatusOK
}

// selects is the condition of a list or watch: labels, and of the fields the name alone.
func selects(r *http.Request) func(Object) bool {
	query := r.URL.Query()
	byLabels, _ := labels.Parse(query.Get("labelSelector")) // nil selects everything
	only, named := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name=")
	return func(o Object) bool {
		return (byLabels == nil || byLabels.Matches(labels.Set(o.GetLabels()))) && (!named || o.GetName() == only)
	}
}

func result(obj Object, err error) func(code int) (any, int) {
	return func(code int) (any, int) {
		if err != nil {
			return failure(err)
		}
		return obj, code
	}
}

func failure(err error) (any, int) {
	if refusal, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return &refusal.ErrStatus, int(refusal.ErrStatus.Code)
	}
	return &metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Code: http.StatusBadRequest}, http.StatusBadRequest
}

// inJSON is the request with a body in JSON, of one in protobuf.
func inJSON(r *http.Request) *http.Request {
	if r.Header.Get("Content-Type") != "application/vnd.kubernetes.protobuf" {
		return r
	}
	body, _ := io.ReadAll(r.Body)
	if obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		body, _ = json.Marshal(obj)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

func decode(body []byte, into any) error {
	if len(body) == 0 {
		return nil
	}
	return json.Unmarshal(body, into)
}

func respond(w http.ResponseWriter, answer any, code int) {
	if status, ok := answer.(*metav1.Status); ok {
		own := *status // a test may answer the same to many
		own.Kind, own.APIVersion = "Status", "v1"
		answer = &own
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the client left: nothing to tell it
}
