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
	"strconv"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"

	"tributary.dev/tributary/internal/apitest/model"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, ok := s.parse(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if req.kind == "" {
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
		s.watch(w, r, query(r, req))
		return
	}
	answer, code := s.serve(r, body, req)
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
		s.mu.Lock()
		s.lockedAnnounce() // for whoever waits until the request hangs
		s.mu.Unlock()
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

// parse reads /version and selfsubjectaccessreviews, which are no kinds, /api/v1/... and
// /apis/discovery.k8s.io/v1/... paths.
func (s *Server) parse(r *http.Request) (req Request, ok bool) {
	switch r.URL.Path {
	case "/version":
		return Request{Verb: "get", Resource: "version", UserAgent: r.UserAgent()}, true
	case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		return Request{Verb: "ask", Resource: "selfsubjectaccessreviews", UserAgent: r.UserAgent()}, true
	}
	group := ""
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api" && parts[1] == "v1":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis" && parts[2] == "v1":
		group, parts = parts[1], parts[3:]
	default:
		return req, false
	}
	req.UserAgent = r.UserAgent()
	if parts[0] == "namespaces" && len(parts) > 2 {
		req.Namespace, parts = parts[1], parts[2:]
	}
	req.Resource = parts[0]
	if len(parts) > 1 {
		req.Name = parts[1]
	}
	req.Verb, req.kind = verb(r, req.Name), model.Kind(req.Resource)
	known := req.kind.GroupVersionKind()
	return req, !known.Empty() && known.Group == group
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

func (s *Server) serve(r *http.Request, body []byte, req Request) (answer any, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := req.kind.ID(req.Namespace, req.Name)
	switch req.Verb {
	case "get":
		return result(s.model.Get(id))(http.StatusOK)
	case "list":
		page, _, _ := s.model.List(query(r, req), 0, nil)
		items := make([]Object, len(page.Items))
		for i, o := range page.Items {
			items[i] = typed(o)
		}
		kind := req.kind.GroupVersionKind()
		return map[string]any{
			"kind": kind.Kind + "List", "apiVersion": kind.GroupVersion().String(),
			"metadata": metav1.ListMeta{ResourceVersion: strconv.FormatUint(page.Revision, 10)}, "items": items,
		}, http.StatusOK
	case "delete":
		var options metav1.DeleteOptions
		if err := decode(body, &options); err != nil {
			return failure(err)
		}
		if _, err := s.model.Delete(id, options.Preconditions); err != nil {
			return failure(err)
		}
		return &metav1.Status{Status: metav1.StatusSuccess}, http.StatusOK
	}
	o := req.kind.New()
	if req.Verb == "patch" { // fields are replaced, lists not merged: enough for Events
		old, err := s.model.Get(id)
		if err != nil {
			return failure(err)
		}
		o = old.DeepCopyObject().(Object)
	}
	if err := decode(body, o); err != nil {
		return failure(err)
	}
	o.SetNamespace(req.Namespace)
	if req.Verb == "create" {
		return result(s.model.Create(o))(http.StatusCreated)
	}
	return result(s.model.Update(o))(http.StatusOK)
}

// query is what a list or watch asks for.
func query(r *http.Request, req Request) model.Query {
	of := r.URL.Query()
	return model.Query{Kind: req.kind, Namespace: req.Namespace, Labels: of.Get("labelSelector"), Fields: of.Get("fieldSelector")}
}

// typed is an object as it goes over the wire: it says what it is.
func typed(o Object) Object {
	o = o.DeepCopyObject().(Object)
	o.GetObjectKind().SetGroupVersionKind(model.KindOf(o).GroupVersionKind())
	return o
}

func result(o Object, err error) func(code int) (any, int) {
	return func(code int) (any, int) {
		if err != nil {
			return failure(err)
		}
		return typed(o), code
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
