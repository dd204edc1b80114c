// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// served is a server in place of a member: it lists, page by page, and watches prepared objects, which never change. A
// hundred of them need less than one API server.
type served struct {
	name, kubeconfig string
	uid              types.UID // of its namespace kube-system, the cluster's identity
	server           *httptest.Server
	// lists are the encoded objects of each resource.
	lists map[string][][]byte
}

// revision is the revision of all objects.
const revision = "1000000"

// serve serves a member with its Services and pods, each with an address of its own, until it is closed.
func (b *bench) serve(m int) (*served, error) {
	s := &served{name: memberName(m), kubeconfig: filepath.Join(b.fleet.Dir, memberName(m)+".kubeconfig"), uid: uuid.NewUUID(), lists: map[string][][]byte{}}
	addresses := uint32(10)<<24 + uint32(m)*(1<<24/uint32(b.members))
	next := func() netip.Addr {
		addresses++
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, addresses)))
	}
	for _, i := range b.of(m) {
		for k := range b.each() {
			if err := s.add("pods", b.pod(i, k), next); err != nil {
				return nil, err
			}
		}
		if err := s.add("services", newService(i), next); err != nil {
			return nil, err
		}
	}
	s.server = httptest.NewUnstartedServer(s)
	s.server.EnableHTTP2 = true
	s.server.StartTLS()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	text, err := cluster.Kubeconfig(s.name, s.server.URL, authority, cluster.User{Name: s.name, Token: "any"})
	if err == nil {
		err = os.WriteFile(s.kubeconfig, text, 0o600)
	}
	if err != nil {
		s.close()
	}
	return s, err
}

// close ends its server and open watches.
func (s *served) close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// add adds an object as it is encoded in a list: without its envelope.
func (s *served) add(resource string, o metav1.Object, next func() netip.Addr) error {
	o.SetResourceVersion(strconv.Itoa(len(s.lists[resource]) + 1))
	text, err := fleet.Stored(o, next)
	if err != nil {
		return err
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(text[4:]); err != nil { // after its magic number
		return err
	}
	s.lists[resource] = append(s.lists[resource], envelope.Raw)
	return nil
}

// ServeHTTP answers as an API server does. Lists of other resources are empty.
func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	watches := q.Get("watch") == "true" || q.Get("watch") == "1"
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	switch resource := filepath.Base(r.URL.Path); {
	case r.URL.Path == "/version":
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		fmt.Fprint(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
	case resource == metav1.NamespaceSystem:
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: resource, UID: s.uid, ResourceVersion: "1"}}
		text, _ := ns.Marshal()
		w.Write(envelope("v1", "Namespace", text))
	case q.Get("sendInitialEvents") == "true": // client-go lists instead
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case watches:
		s.watch(w, r)
	default:
		s.list(w, resource, q.Get("continue"), q.Get("limit"))
	}
}

// kinds are the kinds that are listed, with their group and version.
var kinds = map[string][2]string{
	"pods": {"v1", "Pod"}, "services": {"v1", "Service"}, "endpoints": {"v1", "Endpoints"}, "endpointslices": {"discovery.k8s.io/v1", "EndpointSlice"},
}

// list writes a page. A list in protobuf is its metadata, field 1, and its items, each a field 2.
func (s *served) list(w http.ResponseWriter, resource, after, limit string) {
	all, kind := s.lists[resource], kinds[resource]
	from, _ := strconv.Atoi(after)
	to := len(all)
	if n, _ := strconv.Atoi(limit); n > 0 {
		to = min(from+n, to)
	}
	meta := metav1.ListMeta{ResourceVersion: revision}
	if to < len(all) {
		meta.Continue = strconv.Itoa(to)
	}
	text, _ := meta.Marshal()
	page := field(nil, 1, text)
	for _, item := range all[from:to] {
		page = field(page, 2, item)
	}
	w.Write(envelope(kind[0], kind[1]+"List", page))
}

func field(b []byte, number uint64, content []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, number<<3|2), uint64(len(content)))
	return append(b, content...)
}

func envelope(version, kind string, content []byte) []byte {
	of := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: content}
	text, _ := of.Marshal()
	return append([]byte("k8s\x00"), text...)
}

// watch holds a stream open for the requested time, with a bookmark shortly before its end.
func (s *served) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	if fleet.Wait(r.Context(), time.Duration(max(seconds, 3)-2)*time.Second); r.Context().Err() != nil {
		return
	}
	kind := kinds[filepath.Base(r.URL.Path)]
	text, _ := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: revision}}).Marshal() // metadata is the same field of each kind
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	event := &metav1.WatchEvent{Type: string(watch.Bookmark), Object: runtime.RawExtension{Raw: envelope(kind[0], kind[1], text)}}
	_ = info.StreamSerializer.Encode(event, info.StreamSerializer.Framer.NewFrameWriter(w))
	w.(http.Flusher).Flush()
	fleet.Wait(r.Context(), 2*time.Second)
}
