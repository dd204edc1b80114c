// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/reconcile/sinks/ledger"
	"tributary.dev/tributary/syncer"
)

// What the objects carry.
const (
	prefix = "tributary.sink."
	// LabelSink names the sink.
	LabelSink = "tributary.dev/sink"
	content   = "state.json.gz"
)

// claimed is for how long ahead generations are claimed.
const claimed = 10 * time.Minute

// Where says where the state of a sink is.
type Where struct {
	Client kubernetes.Interface
	// Namespace is Tributary's own, Instance the name of the installation, Sink that of the
	// sink.
	Namespace, Instance, Sink string
}

// Keeper reads and writes the state of one sink. It is for one goroutine, and for one term
// of leadership: nobody else writes meanwhile.
type Keeper struct {
	where    Where
	receiver string
	// stand are the objects as they stand, by name; nil content: unknown.
	stand map[string]*corev1.ConfigMap
	// head is what the head says; doubt the Services that it names.
	head  head
	doubt map[syncer.Key]bool
}

// NewKeeper returns a Keeper for a receiver, which is told everything if it is another than
// the state is of.
func NewKeeper(w Where, receiver string) *Keeper {
	return &Keeper{where: w, receiver: receiver, stand: map[string]*corev1.ConfigMap{}, doubt: map[syncer.Key]bool{}}
}

// ErrForeign is why an object of that name is not used.
var ErrForeign = errors.New("is not this installation's, by its labels")

// ErrUnreadable is why what is kept is of no use.
var ErrUnreadable = errors.New("cannot be read")

// Name is that of the head; the other objects add a dot and their number.
func (w Where) Name() string { return prefix + w.Instance + "." + w.Sink }

func (w Where) part(i int) string { return fmt.Sprintf("%s.%d", w.Name(), i) }

// Load reads what the receiver acknowledged, and a generation that is greater than all that
// were given. Nothing, and no error, is what it returns where there is none, or where that
// is of another receiver. An error that wraps ErrUnreadable is final.
func (k *Keeper) Load(ctx context.Context) (records []ledger.Record, generation int64, err error) {
	object, err := k.get(ctx, k.where.Name())
	if err != nil || object == nil {
		return nil, 0, err
	}
	var h head
	if err := unpack(object.BinaryData[content], &h); err != nil {
		return nil, 0, fmt.Errorf("configmap %s/%s %w: %w", k.where.Namespace, object.Name, ErrUnreadable, err)
	}
	k.head.Parts = h.Parts
	if h.Receiver != k.receiver {
		return nil, h.Ceiling, nil
	}
	doubt := map[syncer.Key]bool{}
	for _, name := range h.Doubt {
		if key, ok := syncer.ParseKey(name); ok {
			doubt[key] = true
		}
	}
	for i := range h.Parts {
		object, err := k.get(ctx, k.where.part(i))
		if err != nil {
			return nil, 0, err
		}
		if object == nil {
			continue // it is told again
		}
		part, err := decodePart(object.BinaryData[content])
		if err != nil {
			return nil, h.Ceiling, fmt.Errorf("configmap %s/%s %w: %w", k.where.Namespace, object.Name, ErrUnreadable, err)
		}
		for _, r := range part {
			if partOf(r.Key, h.Parts) != i {
				continue // left over from another number of parts
			}
			r.Doubt = r.Doubt || doubt[r.Key]
			delete(doubt, r.Key)
			records = append(records, r)
		}
	}
	for key := range doubt {
		records = append(records, ledger.Record{Key: key, Doubt: true})
	}
	return records, h.Ceiling, nil
}

// Marked reports whether all of the Services are known to be in doubt, and the generation is
// claimed: then they may be told of.
func (k *Keeper) Marked(keys []syncer.Key, generation int64) bool {
	for _, key := range keys {
		if !k.doubt[key] {
			return false
		}
	}
	return generation < k.head.Ceiling
}

// Mark writes down, before something is told of them, which Services are in doubt, and
// claims generations. Those that were stay so until Save.
func (k *Keeper) Mark(ctx context.Context, pending []syncer.Key, generation int64) error {
	for _, key := range pending {
		k.doubt[key] = true
	}
	return k.writeHead(ctx, max(k.head.Parts, 1), k.ceiling(generation))
}

// Save writes down what the receiver acknowledged; generation is the last that was given.
// With last, none is given after it in this term.
func (k *Keeper) Save(ctx context.Context, records []ledger.Record, generation int64, last bool) error {
	parts, former := partsFor(records), max(k.head.Parts, 1)
	contents, bare := encodeParts(records, parts)
	// What moves to another object is there before it is looked for there, and until then
	// where it was; and nothing leaves doubt before what was acknowledged is written.
	if parts > former {
		if err := k.writeParts(ctx, contents, former); err != nil {
			return err
		}
		if err := k.writeHead(ctx, parts, k.ceiling(generation)); err != nil {
			return err
		}
	}
	if err := k.writeParts(ctx, contents, 0); err != nil {
		return err
	}
	clear(k.doubt)
	for _, r := range records {
		if r.Doubt {
			k.doubt[r.Key] = true
		}
	}
	for _, key := range bare {
		k.doubt[key] = true
	}
	ceiling := k.ceiling(generation)
	if last {
		ceiling = generation + 1
	}
	if err := k.writeHead(ctx, parts, ceiling); err != nil {
		return err
	}
	for i := parts; i < former; i++ {
		if err := k.remove(ctx, k.where.part(i)); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) writeParts(ctx context.Context, contents [][]byte, from int) error {
	for i := from; i < len(contents); i++ {
		if err := k.write(ctx, k.where.part(i), contents[i]); err != nil {
			return err
		}
	}
	return nil
}

// ceiling claims generations: they follow the clock.
func (k *Keeper) ceiling(generation int64) int64 {
	return max(generation, time.Now().UnixMicro()) + claimed.Microseconds()
}

func (k *Keeper) writeHead(ctx context.Context, parts int, ceiling int64) error {
	h := head{Receiver: k.receiver, Parts: parts, Ceiling: ceiling}
	for key := range k.doubt {
		h.Doubt = append(h.Doubt, key.String())
	}
	slices.Sort(h.Doubt)
	if err := k.write(ctx, k.where.Name(), pack(h)); err != nil {
		return err
	}
	k.head = h
	return nil
}

// get reads an object; nil: there is none.
func (k *Keeper) get(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	object, err := k.where.Client.CoreV1().ConfigMaps(k.where.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		delete(k.stand, name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read configmap %s/%s: %w", k.where.Namespace, name, err)
	}
	if object.Labels[syncer.LabelManagedBy] != syncer.ManagedBy || object.Labels[syncer.LabelInstance] != k.where.Instance || object.Labels[LabelSink] != k.where.Sink {
		return nil, fmt.Errorf("configmap %s/%s %w", k.where.Namespace, name, ErrForeign)
	}
	k.stand[name] = object
	return object, nil
}

// write makes an object hold a content, if it does not.
func (k *Keeper) write(ctx context.Context, name string, bytesOf []byte) error {
	api := k.where.Client.CoreV1().ConfigMaps(k.where.Namespace)
	object := k.stand[name]
	if object != nil && bytes.Equal(object.BinaryData[content], bytesOf) {
		return nil
	}
	data := map[string][]byte{content: bytesOf}
	for range 2 {
		var err error
		var made *corev1.ConfigMap
		if object != nil {
			next := object.DeepCopy()
			next.BinaryData = data
			made, err = api.Update(ctx, next, metav1.UpdateOptions{})
		} else {
			made, err = api.Create(ctx, &corev1.ConfigMap{BinaryData: data, ObjectMeta: metav1.ObjectMeta{
				Namespace: k.where.Namespace, Name: name,
				Labels: map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: k.where.Instance, LabelSink: k.where.Sink},
			}}, metav1.CreateOptions{})
		}
		if err == nil {
			k.stand[name] = made
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !(object != nil && apierrors.IsNotFound(err)) {
			delete(k.stand, name) // it may have been taken
			return fmt.Errorf("write configmap %s/%s: %w", k.where.Namespace, name, err)
		}
		if object, err = k.get(ctx, name); err != nil {
			return err
		}
	}
	return fmt.Errorf("write configmap %s/%s: somebody else keeps changing it", k.where.Namespace, name)
}

func (k *Keeper) remove(ctx context.Context, name string) error {
	delete(k.stand, name)
	err := k.where.Client.CoreV1().ConfigMaps(k.where.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete configmap %s/%s: %w", k.where.Namespace, name, err)
	}
	return nil
}
