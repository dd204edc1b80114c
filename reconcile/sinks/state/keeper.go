// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/sync/errgroup"

	"tributary.dev/tributary/reconcile/sinks/ledger"
	"tributary.dev/tributary/syncer"
)

const (
	prefix = "tributary.sink."
	// LabelSink names the sink on each object.
	LabelSink = "tributary.dev/sink"
	// claimed is for how long ahead generations are claimed: the next process goes on from
	// there.
	claimed = 20 * time.Second
	// atOnce is how many objects are read or written at a time.
	atOnce = 8
)

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
	maps     *objects[corev1.ConfigMap, *corev1.ConfigMap]
	leases   *objects[coordinationv1.Lease, *coordinationv1.Lease]
	// unread is why it is not known what the ConfigMaps hold: then none is written.
	unread error
	// head is what is on record, in the ConfigMap, or else in the Lease; doubt the Services
	// that it names.
	head  head
	doubt map[syncer.Key]bool
}

// NewKeeper returns a Keeper for a receiver, which is told everything if it is another than
// the state is of.
func NewKeeper(w Where, receiver string) *Keeper {
	return &Keeper{where: w, receiver: receiver, maps: configMaps(w), leases: leases(w), doubt: map[syncer.Key]bool{}}
}

// ErrUnreadable is why what is kept is of no use.
var ErrUnreadable = errors.New("cannot be read")

// Name is that of the head; the other objects add a dot and their number.
func (w Where) Name() string { return prefix + w.Instance + "." + w.Sink }

func (w Where) part(i int) string { return fmt.Sprintf("%s.%d", w.Name(), i) }

// Kept is what is on record.
type Kept struct {
	Records []ledger.Record
	// Generation is not less than any that was given.
	Generation int64
	// Written is when it was last written; zero: never, or by a former version.
	Written time.Time
}

// Load reads what the receiver acknowledged. Nothing, and no error, is what it returns where
// there is none, or where that is of another receiver. With an error it returns what it could
// read. One that wraps ErrUnreadable is final; after any other nothing but a Lease is written
// until Load was tried again.
func (k *Keeper) Load(ctx context.Context) (Kept, error) {
	kept, err := k.load(ctx)
	k.unread = err
	if errors.Is(err, ErrUnreadable) {
		k.unread = nil
	}
	return kept, err
}

// Unread reports whether the last Load could not read everything.
func (k *Keeper) Unread() bool { return k.unread != nil }

// Written is when this Keeper last read or wrote that something was written.
func (k *Keeper) Written() time.Time { return k.head.writtenAt() }

func (k *Keeper) load(ctx context.Context) (kept Kept, err error) {
	found := head{}
	doubt, refused := map[syncer.Key]bool{}, map[syncer.Key]bool{}
	var records []ledger.Record
	defer func() {
		for i := range records {
			r := &records[i]
			r.Doubt, r.Refused = r.Doubt || found.Everything || doubt[r.Key], refused[r.Key]
			delete(doubt, r.Key)
		}
		for key := range doubt {
			records = append(records, ledger.Record{Key: key, Doubt: true, Refused: refused[key]})
		}
		k.head.Written = found.Written
		kept = Kept{records, found.Ceiling, found.writtenAt()}
	}()
	take := func(h head) {
		found.Ceiling, found.Written = max(found.Ceiling, h.Ceiling), max(found.Written, h.Written)
		if h.Receiver == k.receiver {
			found.Everything = found.Everything || h.Everything
			maps.Copy(doubt, keysOf(h.Doubt))
			maps.Copy(refused, keysOf(h.Refused))
		}
	}
	lease, err := k.leases.get(ctx, k.where.Name())
	if err != nil && !apierrors.IsForbidden(err) && !errors.Is(err, ErrForeign) {
		return kept, err
	}
	if lease != nil {
		var h head
		if unpack(k.leases.content(lease), &h) != nil {
			h = head{Receiver: k.receiver, Everything: true}
		}
		take(h)
	}
	object, err := k.maps.get(ctx, k.where.Name())
	if err != nil || object == nil {
		return kept, err
	}
	var h head
	if err := unpack(k.maps.content(object), &h); err != nil {
		return kept, fmt.Errorf("configmap %s/%s %w: %w", k.where.Namespace, object.Name, ErrUnreadable, err)
	}
	k.head.Parts = h.Parts
	take(h)
	if h.Receiver == k.receiver {
		records, err = k.parts(ctx, h.Parts)
	}
	if err == nil && lease == nil {
		k.onRecord(h, keysOf(h.Doubt))
	}
	return kept, err
}

// parts reads what the parts hold. One that is missing is told again.
func (k *Keeper) parts(ctx context.Context, parts int) ([]ledger.Record, error) {
	split := make([][]ledger.Record, parts)
	err := each(ctx, 0, parts, func(ctx context.Context, i int) error {
		object, err := k.maps.get(ctx, k.where.part(i))
		if err != nil || object == nil {
			return err
		}
		part, err := decodePart(k.maps.content(object))
		if err != nil {
			return fmt.Errorf("configmap %s/%s %w: %w", k.where.Namespace, object.Name, ErrUnreadable, err)
		}
		split[i] = slices.DeleteFunc(part, func(r ledger.Record) bool {
			return partOf(r.Key, parts) != i // left over from another number of parts
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(split...), nil
}

// each does something for each number, some at a time, and stops at the first error.
func each(ctx context.Context, from, to int, do func(ctx context.Context, i int) error) error {
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := from; i < to && grouped.Err() == nil; i++ {
		group.Go(func() error { return do(grouped, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// Marked reports whether all of the Services are on record as in doubt, and the generation is
// claimed: then they may be told of.
func (k *Keeper) Marked(keys []syncer.Key, generation int64) bool {
	for _, key := range keys {
		if !k.doubt[key] && !k.head.Everything {
			return false
		}
	}
	return generation < k.head.Ceiling
}

// Mark writes down, before something is told of them, which Services are in doubt, and
// claims generations. Those that were stay so until Save. Where the ConfigMap cannot be
// written the Lease may be; it returns the error of the former, and Marked says which it was.
func (k *Keeper) Mark(ctx context.Context, pending []syncer.Key, generation int64) error {
	doubt := maps.Clone(k.doubt)
	for _, key := range pending {
		doubt[key] = true
	}
	h := k.headOf(max(k.head.Parts, 1), ceiling(generation), doubt, k.head.Refused)
	err := k.writeHead(ctx, h)
	if err == nil || ctx.Err() != nil {
		return err
	}
	content := pack(h)
	if len(content) > maxAnnotation {
		h.Doubt, h.Refused, h.Everything = nil, nil, true
		content = pack(h)
	}
	if k.leases.write(ctx, k.where.Name(), content) == nil {
		k.onRecord(h, doubt)
	}
	return err
}

// Save writes down what the receiver acknowledged; generation is the last that was given.
// With last, none is given after it in this term.
func (k *Keeper) Save(ctx context.Context, records []ledger.Record, generation int64, last bool) error {
	if k.unread != nil {
		return k.unread
	}
	parts, former := partsFor(records), max(k.head.Parts, 1)
	contents, bare := encodeParts(records, parts)
	// What moves to another object is there before it is looked for there, and until then
	// where it was; and nothing leaves doubt before what was acknowledged is written.
	if parts > former {
		if err := k.writeParts(ctx, contents, former); err != nil {
			return err
		}
		if err := k.writeHead(ctx, k.headOf(parts, ceiling(generation), k.doubt, k.head.Refused)); err != nil {
			return err
		}
	}
	if err := k.writeParts(ctx, contents, 0); err != nil {
		return err
	}
	doubt, refused := map[syncer.Key]bool{}, map[syncer.Key]bool{}
	for _, r := range records {
		if r.Doubt {
			doubt[r.Key] = true
		}
		if r.Refused {
			refused[r.Key] = true
		}
	}
	for _, key := range bare {
		doubt[key] = true
	}
	until := ceiling(generation)
	if last {
		until = generation
	}
	if h := k.headOf(parts, until, doubt, namesOf(refused)); !h.says(&k.head) {
		if err := k.writeHead(ctx, h); err != nil {
			return err
		}
	}
	if k.leases.known(k.where.Name()) != nil {
		if err := k.leases.remove(ctx, k.where.Name()); err != nil {
			return err
		}
	}
	return each(ctx, parts, former, func(ctx context.Context, i int) error { return k.maps.remove(ctx, k.where.part(i)) })
}

func (k *Keeper) writeParts(ctx context.Context, contents [][]byte, from int) error {
	return each(ctx, from, len(contents), func(ctx context.Context, i int) error { return k.maps.write(ctx, k.where.part(i), contents[i]) })
}

// ceiling claims generations: they follow the clock.
func ceiling(generation int64) int64 {
	return max(generation, time.Now().UnixMicro()) + claimed.Microseconds()
}

func (k *Keeper) headOf(parts int, ceiling int64, doubt map[syncer.Key]bool, refused []string) head {
	return head{Receiver: k.receiver, Parts: parts, Ceiling: ceiling, Doubt: namesOf(doubt), Refused: refused, Written: time.Now().UnixMicro()}
}

func (k *Keeper) writeHead(ctx context.Context, h head) error {
	if k.unread != nil {
		return k.unread
	}
	if err := k.maps.write(ctx, k.where.Name(), pack(h)); err != nil {
		return err
	}
	k.onRecord(h, keysOf(h.Doubt))
	return nil
}

func (k *Keeper) onRecord(h head, doubt map[syncer.Key]bool) { k.head, k.doubt = h, doubt }
