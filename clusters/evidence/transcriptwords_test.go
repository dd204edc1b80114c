// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// happens plays what a line says.
func (r *replay) happens(what string) error {
	head, tail, _ := strings.Cut(what, ":")
	tail = strings.TrimSpace(tail)
	words := strings.Fields(head)
	if len(words) == 0 {
		return errors.New("nothing happens")
	}
	switch words[0] {
	case "config":
		return r.configure(words[1:])
	case "standing":
		return r.stands(words[1:], tail)
	case "start":
		for key := range r.standing {
			r.shown[key] = "what stands"
		}
		if len(r.standing) > 0 {
			r.step(Baseline{Replicas: r.standing, PanicAt: r.panicAt})
		}
		r.step(Connected{})
	case "leading": // with what stands by the former leader
		r.step(Leading{r.standing, r.served()})
		clear(r.standing)
	case "restart":
		r.panicAt = r.state.PanicAt()
		r.state, r.reads, r.synced, r.holds, r.waits = nil, nil, false, "", ""
		clear(r.shown)
		clear(r.standing)
	case "stop":
		r.step(Stopped{})
	case "restored":
		r.step(Restored{errors.New("the newest pod is missing")})
	case "others":
		r.others = words[len(words)-1] == "ready"
	case "contact":
		r.step(Contact{})
	case "probe":
		return r.probe(words[1:])
	case "connect":
		f, err := faultOf(strings.Join(words[1:], " "))
		r.step(Connected{f})
		return err
	case "rescoped":
		r.step(Rescoped{})
	case "reconnect":
		f, err := faultOf(strings.Join(words[1:], " "))
		r.step(Reconnected{f})
		return err
	case "release":
		return r.release(words[1:])
	case "watch":
		return r.watch(words[1:])
	case "list":
		return r.list(words[1:], tail)
	case "answer":
		return r.answer(words[1:], tail)
	case "pod", "service", "endpoints", "slice", "node":
		return r.object(words, tail)
	default:
		return fmt.Errorf("no such thing happens: %q", words[0])
	}
	return nil
}

// configure sets what the member's configuration says.
func (r *replay) configure(settings []string) error {
	for _, text := range settings {
		name, value, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(value)
		d, notTime := time.ParseDuration(value)
		switch name {
		case "min-endpoints":
			r.cfg.MinEndpoints = n
		case "percent":
			r.cfg.Percent = n
		case "confirm-percent":
			r.cfg.ConfirmPercent = n
		case "panic-percent":
			r.cfg.PanicPercent = n
		case "max-objects":
			r.cfg.MaxObjects = n
		case "hold-silent":
			r.cfg.HoldSilent, err = d, notTime
		case "stale-after":
			r.cfg.StaleAfter, err = d, notTime
		case "stable-for":
			r.damping.StableFor, err = d, notTime
		case "keep-one":
			r.damping.KeepOne, err = value == "true", nil
		case "rules":
			r.cfg.Decider, err = deciderNamed(value), nil
		case "since":
			r.cfg.KeptSince = store.KeptSince{Pod: uint32(n)}
		case "clock": // of the member against ours
			r.clock, r.noClock = d, value == "unknown"
			if err = nil; !r.noClock {
				err = notTime
			}
		case "decodes":
			r.decodes = uint32(n)
		default:
			return fmt.Errorf("no such setting: %q", name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	r.cfg.Damping = dampingOf(r.damping)
	if r.state != nil {
		r.step(Configured{r.cfg})
	}
	return nil
}

// dampingOf are the settings of Services; they may say so themselves.
func dampingOf(all Damping) func(*syncer.Service) Damping {
	return func(svc *syncer.Service) Damping {
		d := all
		if text, given := svc.Annotations["stable-for"]; given {
			d.StableFor, _ = time.ParseDuration(text)
		}
		if text, given := svc.Annotations["keep-one"]; given {
			d.KeepOne = text == "true"
		}
		return d
	}
}

// stands gives what stands in the ingress cluster before the start.
func (r *replay) stands(words []string, tail string) error {
	if len(words) == 0 {
		return errors.New("standing REPLICA [publishes|by-hand[=OBJECT,…]] [of SERVICE …]: ADDRESS POD, …")
	}
	key := keyOf(words[0])
	record := ""
	if len(words) > 1 && words[1] != "of" {
		words, record = words[1:], words[1]
	}
	x := Standing{Sources: []syncer.Key{key}}
	if len(words) > 2 {
		x.Sources = nil
		for _, service := range words[2:] {
			x.Sources = append(x.Sources, keyOf(strings.TrimSuffix(service, ",")))
		}
	}
	switch {
	case record == "publishes":
		x.Publishing = x.Sources
	case strings.HasPrefix(record, "by-hand"):
		x.HandWritten = map[syncer.Key][]string{}
		for _, source := range x.Sources {
			x.HandWritten[source] = nil
			if written, in := strings.CutPrefix(record, "by-hand="); in {
				x.HandWritten[source] = strings.Split(written, ",")
			}
		}
	}
	items, err := expand(tail)
	if err != nil {
		return err
	}
	for _, item := range items {
		fields := strings.Fields(item)
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			return err
		}
		e := syncer.Endpoint{Addr: addr, Ports: manualPort, Ready: true, Serving: true}
		for _, word := range fields[1:] {
			node, on := strings.CutPrefix(word, "node=")
			zone, in := strings.CutPrefix(word, "zone=")
			switch {
			case word == "not-ready":
				e.Ready, e.Serving = false, false
			case word == "-": // no pod
			case on:
				e.NodeName = node
			case in:
				e.Zone = zone
			default:
				name := keyOf(word)
				e.Target = syncer.TargetRef{Kind: "Pod", Key: name, UID: "uid-" + name.Name}
			}
		}
		x.Endpoints = append(x.Endpoints, e)
	}
	r.standing[key] = x
	return nil
}

// served are the replicas that have endpoints, of other members, too.
func (r *replay) served() map[syncer.Key]bool {
	served := map[syncer.Key]bool{}
	for key, of := range r.standing {
		served[key] = r.others || len(of.Endpoints) > 0
	}
	return served
}

func (r *replay) probe(words []string) error {
	f, err := faultOf(strings.Join(words, " "))
	r.probes = err == nil && f.Class == Well
	r.step(Probed{f})
	return err
}

// faultOf reads a class of errors.
func faultOf(text string) (Fault, error) {
	classes := map[string]Class{"": Well, "ok": Well, "unreachable": Unreachable, "forbidden": Denial, "not found": Missing, "another cluster": OtherCluster,
		"no kubeconfig": NoKubeconfig, "too many objects": TooMany, "too large": TooLarge}
	class, ok := classes[text]
	if !ok {
		return Fault{}, fmt.Errorf("no such fault: %q", text)
	}
	f := Fault{Class: class}
	if class != Well {
		f.Err = errors.New(text)
	}
	return f, nil
}

func (r *replay) release(words []string) error {
	if len(words) == 0 {
		r.step(Release{})
		return nil
	}
	key := keyOf(words[0])
	r.step(Release{&key})
	return nil
}

func (r *replay) watch(words []string) error {
	if len(words) < 2 {
		return errors.New("watch KIND follows [[FAULT] without NAMESPACE…] | lists | waits [FAULT] | is denied")
	}
	words, leftOut := withoutOf(words)
	kind, err := kindNamed(words[0])
	if err != nil {
		return err
	}
	phase, ok := map[string]Phase{"follows": Following, "lists": Listing, "waits": Waiting, "denied": Denied}[words[1]]
	if !ok {
		return fmt.Errorf("a watch never %s", words[1])
	}
	f, err := faultOf(strings.Join(words[2:], " "))
	switch {
	case len(leftOut.Namespaces) == 0:
	case f.Class == Well:
		f = Fault{Denial, fmt.Errorf("namespace %s: %s is forbidden", leftOut.Namespaces[0], kind)}
	default:
		f.Err = fmt.Errorf("namespace %s: %w", leftOut.Namespaces[0], f.Err)
	}
	r.step(Watched{kind, phase, f, leftOut.Namespaces})
	return err
}

// withoutOf splits off the namespaces that are left out; "unlisted" says that no list has shown
// them.
func withoutOf(words []string) (rest []string, out LeftOut) {
	i := slices.Index(words, "without")
	if i < 0 {
		return words, out
	}
	if out.Namespaces = words[i+1:]; out.Namespaces[0] == "unlisted" {
		out.Namespaces = out.Namespaces[1:]
		out.Unlisted = out.Namespaces
	}
	return words[:i], out
}

func kindNamed(text string) (Kind, error) {
	for k := range kinds {
		if k.String() == text || text == "slices" && k == Slices {
			return k, nil
		}
	}
	return 0, fmt.Errorf("no such kind: %q", text)
}

// list KIND @REVISION [older] [begun=TIME] [of SERVICE…] [without [unlisted] NAMESPACE…]: ITEM, …
func (r *replay) list(words []string, tail string) error {
	words, leftOut := withoutOf(words)
	if len(words) < 2 {
		return errors.New("list KIND @REVISION [older] [begun=TIME] [of SERVICE…] [without [unlisted] NAMESPACE…]: ITEM, …")
	}
	kind, err := kindNamed(words[0])
	if err != nil {
		return err
	}
	revision, err := revisionNamed(words[1])
	if err != nil {
		return err
	}
	older := len(words) > 2 && words[2] == "older"
	r.begun = time.Time{}
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "begun=") }); i >= 0 {
		ago, err := time.ParseDuration(strings.TrimPrefix(words[i], "begun="))
		if err != nil {
			return err
		}
		r.begun = start.Add(ago)
	}
	var services []syncer.Key
	if i := slices.Index(words, "of"); i >= 0 {
		for _, w := range words[i+1:] {
			services = append(services, keyOf(strings.TrimSuffix(w, ",")))
		}
	}
	items, err := expand(tail)
	if err != nil {
		return err
	}
	var e Event
	at := r.revisionOf(kind, revision)
	r.latest = revision
	switch kind {
	case Services:
		e, err = listOf(r, items, at, older, nil, leftOut, serviceNamed)
	case Pods:
		e, err = listOf(r, items, at, older, nil, leftOut, podNamed)
	case Nodes:
		e, err = listOf(r, items, at, older, nil, leftOut, nodeNamed)
	case Endpoints:
		e, err = listOf(r, items, at, older, services, leftOut, endpointsNamed)
	default:
		e, err = listOf(r, items, at, older, services, leftOut, sliceNamed)
	}
	if err != nil {
		return err
	}
	r.step(e)
	return nil
}

// revisionOf returns the revision of an item of a list: of an item that is spelt as it
// was last the one that it had, of any other the list's. An empty item asks for that.
func (r *replay) revisionOf(kind Kind, list uint64) func(item string) uint64 {
	return func(item string) uint64 {
		if item == "" {
			return list
		}
		id := kind.String() + item
		if _, known := r.revisions[id]; !known {
			r.revisions[id] = list
		}
		return r.revisions[id]
	}
}

func listOf[T Object](r *replay, items []string, revision func(item string) uint64, older bool, services []syncer.Key, leftOut LeftOut, read func(string) (T, uint64, error)) (Event, error) {
	e := Listed[T]{Revision: revision(""), Begun: r.begun, Older: older, Services: services, LeftOut: leftOut}
	if !r.noClock {
		e.Clock = r.now.Add(r.clock)
	}
	for _, item := range items {
		object, rv, err := read(item)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		if rv == 0 {
			rv = revision(item)
		}
		e.Items = append(e.Items, store.Versioned[T]{Object: object, RV: rv, Kept: r.kept(item), Written: writtenAt(item)})
	}
	return e, nil
}

// object plays an event of a watch: KIND added|modified|deleted @REVISION: ITEM.
func (r *replay) object(words []string, tail string) error {
	if len(words) != 3 {
		return errors.New("pod added|modified|deleted @REVISION: ITEM, …")
	}
	revision, err := revisionNamed(words[2])
	if err != nil {
		return err
	}
	items, err := expand(tail)
	if err != nil {
		return err
	}
	for i, item := range items {
		var e Event
		r.revisions[words[0]+"s"+item] = revision + uint64(i)
		switch words[0] {
		case "pod":
			e, err = eventOf(r, words[1], item, revision+uint64(i), podNamed)
		case "service":
			e, err = eventOf(r, words[1], item, revision+uint64(i), serviceNamed)
		case "node":
			e, err = eventOf(r, words[1], item, revision+uint64(i), nodeNamed)
		case "endpoints":
			e, err = eventOf(r, words[1], item, revision+uint64(i), endpointsNamed)
		default:
			e, err = eventOf(r, words[1], item, revision+uint64(i), sliceNamed)
		}
		if err != nil {
			return err
		}
		r.step(e)
	}
	return nil
}

func eventOf[T Object](r *replay, what, item string, revision uint64, read func(string) (T, uint64, error)) (Event, error) {
	object, _, err := read(item)
	v := store.Versioned[T]{Object: object, RV: revision, Kept: r.kept(item)}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q: %w", item, err)
	case what == "deleted":
		return &Gone[T]{v}, nil
	case what == "added" || what == "modified":
		return &Seen[T]{v, what == "added"}, nil
	}
	return nil, fmt.Errorf("an object is added, modified or deleted, not %q", what)
}

// answer answers reads that are waited for: answer NAME…|all: not found | there ITEM | refused | failed.
func (r *replay) answer(words []string, tail string) error {
	names, err := expand(strings.Join(words, ","))
	if err != nil {
		return err
	}
	outcome, item, _ := strings.Cut(tail, " ")
	var answered int
	for _, read := range slices.Clone(r.reads) {
		if !slices.Contains(names, "all") && !slices.Contains(names, short(read.Key)) {
			continue
		}
		answered++
		r.reads = slices.DeleteFunc(r.reads, func(x Read) bool { return reflect.DeepEqual(x, read) })
		a := Answer{Read: read}
		switch outcome {
		case "not":
			a.Outcome = NotFound
		case "refused":
			a.Outcome = Refused
		case "failed":
			a.Outcome = Failed
		case "there":
			a.Outcome = There
			a.Object, err = objectNamed(read, item, r.latest)
		default:
			return fmt.Errorf("no such answer: %q", tail)
		}
		if err != nil {
			return err
		}
		r.step(a)
	}
	if answered == 0 {
		return fmt.Errorf("nobody asked for %v; waited for: %v", names, r.reads)
	}
	return nil
}

// objectNamed is the object that an answer brings, by default at the revision of the
// latest list. Of what is written by hand that is "Endpoints ADDRESS…; slice NAME ADDRESS…".
func objectNamed(read Read, item string, latest uint64) (any, error) {
	if item == "" {
		return nil, errors.New("there is what?")
	}
	item = strings.ReplaceAll(item, "NAME", short(read.Key))
	switch read.Kind {
	case Pods:
		p, rv, err := podNamed(item)
		return podItem{Object: p, RV: cmp.Or(rv, latest)}, err
	case Services:
		s, rv, err := serviceNamed(item)
		return serviceItem{Object: s, RV: cmp.Or(rv, latest)}, err
	case Endpoints:
		e, rv, err := endpointsNamed(item)
		return endpointsVersion{Object: e, RV: cmp.Or(rv, latest)}, err
	case Slices:
		s, rv, err := sliceNamed(item)
		return sliceVersion{Object: s, RV: cmp.Or(rv, latest)}, err
	}
	var w Written
	for part := range strings.SplitSeq(item, ";") {
		what, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
		if what == "Endpoints" {
			e, rv, err := endpointsNamed(short(read.Key) + " " + rest)
			if err != nil {
				return nil, err
			}
			w.Endpoints = &endpointsVersion{Object: e, RV: cmp.Or(rv, latest)}
			continue
		}
		name, addresses, _ := strings.Cut(rest, " ")
		s, rv, err := sliceNamed(name + " of " + read.Key.Name + " " + addresses)
		if err != nil {
			return nil, err
		}
		w.Slices = append(w.Slices, sliceVersion{Object: s, RV: cmp.Or(rv, latest)})
	}
	return w, nil
}

func keyOf(text string) syncer.Key {
	if ns, name, ok := strings.Cut(text, "/"); ok {
		return syncer.Key{Namespace: ns, Name: name}
	}
	return syncer.Key{Namespace: namespace, Name: text}
}

func revisionNamed(text string) (uint64, error) {
	number, ok := strings.CutPrefix(text, "@")
	if !ok {
		return 0, fmt.Errorf("a revision is written @100, not %q", text)
	}
	return strconv.ParseUint(number, 10, 64)
}

// expand splits a list at its commas, and counts out {1..9}: several braces in one item
// count together.
func expand(text string) (items []string, err error) {
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		n, ranges := 1, [][2]int{}
		parts := strings.Split(item, "{")
		for _, part := range parts[1:] {
			inside, _, _ := strings.Cut(part, "}")
			var from, to int
			if _, err := fmt.Sscanf(inside, "%d..%d", &from, &to); err != nil {
				return nil, fmt.Errorf("%q: %w", item, err)
			}
			ranges = append(ranges, [2]int{from, to})
			n = to - from + 1
		}
		for i := range n {
			out := parts[0]
			for j, part := range parts[1:] {
				_, rest, _ := strings.Cut(part, "}")
				out += strconv.Itoa(ranges[j][0]+i) + rest
			}
			items = append(items, out)
		}
	}
	return items, nil
}

// podNamed reads a pod: NAME ADDRESS APP, then flags: uid=, node=, @REVISION, not-ready,
// terminating, finished, silent. The UID is uid-NAME.
func podNamed(text string) (p syncer.Pod, rv uint64, err error) {
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return p, 0, errors.New("a pod is NAME ADDRESS APP and flags")
	}
	p.Key = keyOf(fields[0])
	p.UID, p.Ready, p.Labels = "uid-"+p.Name, true, map[string]string{"app": fields[2]}
	if fields[1] != "-" {
		addr, err := netip.ParseAddr(octets(fields[1]))
		if err != nil {
			return p, 0, err
		}
		p.IPs = []syncer.PodIP{{Addr: addr}}
	}
	for _, flag := range fields[3:] {
		name, value, _ := strings.Cut(flag, "=")
		switch name {
		case "uid":
			p.UID = value
		case "node":
			p.NodeName = value
		case "not-ready":
			p.Ready = false
		case "host":
			p.HostNetwork = true
		case "since":
			d, err := time.ParseDuration(value)
			if err != nil {
				return p, 0, err
			}
			p.ReadySince = start.Add(d).Unix()
		case "marked", "written": // see kept and writtenAt
		case "terminating":
			p.Deleted = 1
		case "finished":
			p.Ready, p.Terminal = false, true
		case "silent":
			p.Ready, p.NodeSilent = false, true
		default:
			if rv, err = revisionNamed(flag); err != nil {
				return p, 0, err
			}
		}
	}
	return p, rv, nil
}

// writtenAt is when the member last took a change of a pod: written=TIME or, unless that is
// unknown, since.
func writtenAt(item string) (second int64) {
	for _, flag := range strings.Fields(item) {
		name, value, _ := strings.Cut(flag, "=")
		if d, err := time.ParseDuration(value); name == "written" || name == "since" {
			if second = 0; err == nil {
				second = start.Add(d).Unix()
			}
		}
	}
	return second
}

// octets turns 10.0.1234 into an address: the last number counts on.
func octets(text string) string {
	if parts := strings.Split(text, "."); len(parts) == 3 {
		if n, err := strconv.Atoi(parts[2]); err == nil {
			return fmt.Sprintf("%s.%s.%d.%d", parts[0], parts[1], n>>8, n&255)
		}
	}
	return text
}

// serviceNamed reads a Service: NAME selects APP | NAME selects everything | NAME by-hand,
// then: uid=UID, as=REPLICA, stable-for=TIME, keep-one=true, publishes, @REVISION.
func serviceNamed(text string) (s syncer.Service, rv uint64, err error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return s, 0, errors.New("a Service is NAME selects APP, or NAME by-hand")
	}
	s.Key = keyOf(fields[0])
	s.UID, s.ClusterIP, s.IPFamilies = "uid-"+s.Name, "10.96.0.1", []syncer.Family{syncer.IPv4}
	s.Ports = []syncer.ServicePort{{Name: "http", Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: 8080}}}
	rest := fields[1:]
	switch {
	case rest[0] == "by-hand":
		rest = rest[1:]
	case rest[0] == "selects" && len(rest) > 1 && rest[1] == "everything":
		s.Selector, rest = map[string]string{}, rest[2:]
	case rest[0] == "selects" && len(rest) > 1:
		s.Selector, rest = map[string]string{"app": rest[1]}, rest[2:]
	default:
		return s, 0, errors.New("a Service is NAME selects APP, or NAME by-hand")
	}
	for _, flag := range rest {
		if name, value, ok := strings.Cut(flag, "="); ok && name == "uid" {
			s.UID = value
		} else if ok {
			if s.Annotations == nil {
				s.Annotations = map[string]string{}
			}
			s.Annotations[name] = value
		} else if flag == "publishes" {
			s.PublishNotReadyAddresses = true
		} else if rv, err = revisionNamed(flag); err != nil {
			return s, 0, err
		}
	}
	return s, rv, nil
}

func nodeNamed(text string) (n store.Node, rv uint64, err error) {
	fields := strings.Fields(text)
	n.Name = fields[0]
	if len(fields) > 1 {
		n.Zone = fields[1]
	}
	return n, 0, nil
}

// endpointsNamed reads Endpoints: NAME ADDRESS…
func endpointsNamed(text string) (e store.Endpoints, rv uint64, err error) {
	fields := strings.Fields(text)
	e.Key = keyOf(fields[0])
	e.UID = "uid-" + e.Name
	subset := syncer.Subset{Ports: manualPort}
	for _, f := range fields[1:] {
		if strings.HasPrefix(f, "@") {
			if rv, err = revisionNamed(f); err != nil {
				return e, 0, err
			}
			continue
		}
		a, err := netip.ParseAddr(f)
		if err != nil {
			return e, 0, err
		}
		subset.Ready = append(subset.Ready, syncer.Address{Addr: a})
	}
	if len(subset.Ready) > 0 {
		e.Subsets = []syncer.Subset{subset}
	}
	return e, rv, nil
}

// sliceNamed reads a slice: NAME of SERVICE ADDRESS…
func sliceNamed(text string) (s store.Slice, rv uint64, err error) {
	fields := strings.Fields(text)
	if len(fields) < 3 || fields[1] != "of" {
		return s, 0, errors.New("a slice is NAME of SERVICE ADDRESS…")
	}
	s.Key, s.Service = keyOf(fields[0]), fields[2]
	s.UID = "uid-" + s.Name
	s.Content = syncer.Slice{Name: s.Name, Family: syncer.IPv4, Ports: manualPort}
	for _, f := range fields[3:] {
		if strings.HasPrefix(f, "@") {
			if rv, err = revisionNamed(f); err != nil {
				return s, 0, err
			}
			continue
		}
		a, err := netip.ParseAddr(f)
		if err != nil {
			return s, 0, err
		}
		s.Content.Endpoints = append(s.Content.Endpoints, syncer.Endpoint{Addr: a, Ready: true, Serving: true})
	}
	return s, rv, nil
}
