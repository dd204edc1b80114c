// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/reconcile/sinks/ledger"
	"tributary.dev/tributary/syncer"
)

func where(client *fake.Clientset) Where {
	return Where{Client: client, Namespace: "own", Instance: "default", Sink: "slb"}
}

func key(i int) syncer.Key { return syncer.Key{Namespace: "shop", Name: fmt.Sprint("s", i)} }

func recordOf(i, endpoints int) ledger.Record {
	var list []ledger.Endpoint
	for n := range endpoints {
		app := syncer.AppProtocol{}
		if n%2 == 0 {
			app = syncer.AppProtocol{Value: "h2c", Set: true}
		}
		list = append(list, ledger.Endpoint{
			Addr: netip.AddrFrom4([4]byte{10, byte(i), byte(n >> 8), byte(n)}), Cluster: "idc-a", Zone: "z1", Ready: n%2 == 0, Serving: n%3 == 0, Terminating: n%5 == 0,
			Ports: []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 80, AppProtocol: app}},
		})
	}
	return ledger.Record{Key: key(i), Generation: int64(100 + i), Service: ledger.NewService(list)}
}

func writes(client *fake.Clientset) string {
	var out []string
	for _, a := range client.Actions() {
		switch a := a.(type) {
		case ktesting.UpdateAction: // creations have the same methods
			name := a.GetObject().(metav1.Object).GetName()
			if a.GetResource().Resource == "leases" {
				name = "lease " + name
			}
			out = append(out, a.GetVerb()+" "+strings.Replace(name, "tributary.sink.default.", "", 1))
		case ktesting.DeleteAction:
			out = append(out, "delete "+strings.TrimPrefix(a.GetName(), "tributary.sink.default."))
		}
	}
	client.ClearActions()
	return strings.Join(out, ", ")
}

func load(t *testing.T, client *fake.Clientset, receiver string) (map[syncer.Key]ledger.Record, int64) {
	t.Helper()
	kept, err := NewKeeper(where(client), receiver).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	records, generation := kept.Records, kept.Generation
	out := map[syncer.Key]ledger.Record{}
	for _, r := range records {
		if _, twice := out[r.Key]; twice {
			t.Errorf("%s comes twice", r.Key)
		}
		out[r.Key] = r
	}
	return out, generation
}

func TestWhatWasAcknowledgedOutlivesARestart(t *testing.T) {
	client := fake.NewClientset()
	k := NewKeeper(where(client), "here")
	if kept, err := k.Load(t.Context()); err != nil || len(kept.Records) > 0 || kept.Generation != 0 || !kept.Written.IsZero() {
		t.Fatal(kept, err)
	}
	first, second := recordOf(1, 5), recordOf(2, 1)
	if k.Marked([]syncer.Key{first.Key}, 7) {
		t.Error("in doubt before anything was written")
	}
	if err := k.Mark(t.Context(), []syncer.Key{first.Key, second.Key}, 7); err != nil {
		t.Fatal(err)
	}
	got, generation := load(t, client, "here")
	if want := map[syncer.Key]ledger.Record{key(1): {Key: key(1), Doubt: true}, key(2): {Key: key(2), Doubt: true}}; !reflect.DeepEqual(got, want) {
		t.Errorf("before anything was acknowledged: %+v", got)
	}
	if !k.Marked([]syncer.Key{first.Key}, 7) || k.Marked([]syncer.Key{first.Key}, generation) || k.Marked([]syncer.Key{key(3)}, 7) {
		t.Error("what is marked is not what was")
	}
	second.Doubt = true
	if err := k.Save(t.Context(), []ledger.Record{first, second}, 9, false); err != nil {
		t.Fatal(err)
	}
	got, generation = load(t, client, "here")
	if want := map[syncer.Key]ledger.Record{key(1): first, key(2): second}; !reflect.DeepEqual(got, want) || generation <= 9 {
		t.Errorf("got %+v, want %+v; generation %d", got, want, generation)
	}
	if k.Marked([]syncer.Key{first.Key}, 9) || !k.Marked([]syncer.Key{second.Key}, 9) {
		t.Error("what was acknowledged is in doubt, or what was not is not")
	}
	client.ClearActions()
	if err := k.Save(t.Context(), []ledger.Record{first, second}, 9, true); err != nil {
		t.Fatal(err)
	}
	if got := writes(client); got != "update slb" {
		t.Errorf("nothing was acknowledged, and yet %q", got)
	}
	if _, generation := load(t, client, "here"); generation != 9 {
		t.Errorf("generation %d after an orderly end", generation)
	}
	if got, generation := load(t, client, "elsewhere"); len(got) > 0 || generation < 9 {
		t.Errorf("another receiver has %v, generation %d", got, generation)
	}
}

// TestEveryCrashLeavesWhatWasAcknowledged: whichever request is the last that is made, nothing
// that was acknowledged is forgotten, and what is older than what was acknowledged is in doubt.
func TestEveryCrashLeavesWhatWasAcknowledged(t *testing.T) {
	small, large := []ledger.Record{recordOf(1, 3)}, []ledger.Record{recordOf(1, 4)}
	for i := 2; i < 12; i++ {
		small, large = append(small, recordOf(i, 1)), append(large, recordOf(i, 600))
	}
	for _, test := range []struct {
		name     string
		from, to []ledger.Record
	}{{"growth", small, large}, {"shrinking", large, small}} {
		for crash := range 40 {
			client := fake.NewClientset()
			k := NewKeeper(where(client), "here")
			if err := k.Save(t.Context(), test.from, 1, false); err != nil {
				t.Fatal(err)
			}
			var all []syncer.Key
			for _, r := range test.to {
				all = append(all, r.Key)
			}
			if err := k.Mark(t.Context(), all, 1); err != nil { // before they were told
				t.Fatal(err)
			}
			requests := 0
			client.PrependReactor("*", "configmaps", func(a ktesting.Action) (bool, runtime.Object, error) {
				if a.GetVerb() == "get" {
					return false, nil, nil
				}
				requests++
				return requests > crash, nil, errors.New("gone")
			})
			err := k.Save(t.Context(), test.to, 1, false)
			got, _ := load(t, client, "here")
			for i, r := range test.to {
				is, known := got[r.Key]
				switch {
				case !known:
					t.Errorf("%s: after %d requests %s is forgotten", test.name, crash, r.Key)
				case !is.Service.Equal(r.Service) && !is.Doubt:
					t.Errorf("%s: after %d requests %s is of before, and not in doubt", test.name, crash, r.Key)
				case !is.Service.Equal(r.Service) && !is.Service.Equal(test.from[i].Service):
					t.Errorf("%s: after %d requests %s is nothing that ever was", test.name, crash, r.Key)
				}
			}
			if err == nil {
				break
			}
		}
	}
}

// TestParts: however the number of parts changes, no Service is lost nor comes twice.
func TestParts(t *testing.T) {
	client := fake.NewClientset()
	k := NewKeeper(where(client), "here")
	rng := dice.New(t)
	for range 8 {
		var records []ledger.Record
		want := map[syncer.Key]ledger.Record{}
		for i := range 1 + rng.IntN(20) {
			r := recordOf(i, rng.IntN(1200))
			records, want[r.Key] = append(records, r), r
		}
		if err := k.Save(t.Context(), records, 1, false); err != nil {
			t.Fatal(err)
		}
		got, _ := load(t, client, "here")
		if len(got) != len(want) {
			t.Fatalf("%d of %d Services", len(got), len(want))
		}
		for key, r := range want {
			if !got[key].Service.Equal(r.Service) || got[key].Generation != r.Generation || got[key].Doubt {
				t.Fatalf("%s differs", key)
			}
		}
		list, err := client.CoreV1().ConfigMaps("own").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1+partsFor(records) {
			t.Errorf("%d objects, %v", len(list.Items), err)
		}
		for i := range list.Items {
			if n := len(k.maps.content(&list.Items[i])); n > maxPart {
				t.Errorf("%s has %d bytes", list.Items[i].Name, n)
			}
		}
	}
}

func TestWhatDoesNotFitIsInDoubt(t *testing.T) {
	var of []ledger.Record
	rng := dice.New(t)
	r := recordOf(1, 0)
	list := make([]ledger.Endpoint, 60_000)
	for i := range list {
		var zone [24]byte
		for j := range zone {
			zone[j] = byte('a' + rng.IntN(26))
		}
		list[i] = ledger.Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), Zone: string(zone[:])}
	}
	r.Service = ledger.NewService(list)
	contents, bare := encodeParts(append(of, r, recordOf(2, 3)), 1)
	if len(bare) != 1 || bare[0] != key(1) || len(contents[0]) > maxPart {
		t.Errorf("%v, %d bytes", bare, len(contents[0]))
	}
	back, err := decodePart(contents[0])
	if err != nil || len(back) != 2 || !back[0].Doubt || back[1].Doubt {
		t.Errorf("%+v %v", back, err)
	}
}

func TestOthersObjectsAreLeftAlone(t *testing.T) {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: where(nil).Name()}}
	client := fake.NewClientset(theirs)
	k := NewKeeper(where(client), "here")
	if _, err := k.Load(t.Context()); !errors.Is(err, ErrForeign) {
		t.Errorf("load: %v", err)
	}
	if err := k.Mark(t.Context(), []syncer.Key{key(1)}, 1); !errors.Is(err, ErrForeign) {
		t.Errorf("mark: %v", err)
	}
	if got := writes(client); got != "create lease slb" { // what was not read is not replaced
		t.Errorf("wrote %q", got)
	}
}

func TestGarbageIsSaidToBe(t *testing.T) {
	for _, test := range []struct{ name, head, part string }{
		{"the head", "garbage", ""},
		{"a part", string(pack(head{Receiver: "here", Parts: 1})), "garbage"},
		{"an address", string(pack(head{Receiver: "here", Parts: 1})), string(pack([]written{{Key: "a/b", Endpoints: []endpoint{{Address: "x"}}}}))},
		{"a name", string(pack(head{Receiver: "here", Parts: 1})), string(pack([]written{{Key: "b"}}))},
	} {
		client := fake.NewClientset()
		k := NewKeeper(where(client), "here")
		for name, text := range map[string]string{k.where.Name(): test.head, k.where.part(0): test.part} {
			if err := k.maps.write(t.Context(), name, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := NewKeeper(where(client), "here").Load(t.Context()); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

type written = struct {
	Key       string     `json:"k"`
	Endpoints []endpoint `json:"e"`
}

// TestSomebodyElseWrote: what another process made of an object is not taken for ours.
func TestSomebodyElseWrote(t *testing.T) {
	client := fake.NewClientset()
	k := NewKeeper(where(client), "here")
	if err := k.Save(t.Context(), []ledger.Record{recordOf(1, 1)}, 1, false); err != nil {
		t.Fatal(err)
	}
	conflicts := 0
	client.PrependReactor("update", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) {
		if conflicts++; conflicts == 1 {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("changed"))
		}
		return false, nil, nil
	})
	if err := k.Save(t.Context(), []ledger.Record{recordOf(1, 2)}, 1, false); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().ConfigMaps("own").Delete(t.Context(), k.where.part(0), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := k.Save(t.Context(), []ledger.Record{recordOf(1, 3)}, 1, false); err != nil {
		t.Fatal(err)
	}
	if got, _ := load(t, client, "here"); !got[key(1)].Service.Equal(recordOf(1, 3).Service) {
		t.Errorf("%+v", got)
	}
}

// TestFormerStateIsRead: what a former version wrote down is what the receiver acknowledged.
func TestFormerStateIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/1c131de.json")
	if err != nil {
		t.Fatal(err)
	}
	var maps []*corev1.ConfigMap
	if err := json.Unmarshal(text, &maps); err != nil || len(maps) == 0 {
		t.Fatal(len(maps), err)
	}
	client := fake.NewClientset()
	for _, m := range maps {
		if err := client.Tracker().Add(m); err != nil {
			t.Fatal(err)
		}
	}
	records, generation := load(t, client, "http://slb")
	if len(records) != 2 || generation < 107 {
		t.Errorf("%d records, generation %d", len(records), generation)
	}
	for _, want := range []ledger.Record{recordOf(1, 3), recordOf(2, 0)} {
		if got := records[want.Key]; got.Service == nil || !got.Service.Equal(want.Service) || got.Generation != want.Generation || got.Doubt {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
