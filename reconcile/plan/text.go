// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"

	"tributary.dev/tributary/syncer"
)

// WriteText prints plans for people: a table of the writes in order, then what
// is in the way, then a summary. The plans are printed in the order given.
func WriteText(w io.Writer, plans []Plan, wide bool) error {
	var out bytes.Buffer
	table := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	more := func(columns ...string) string {
		if !wide {
			return ""
		}
		return strings.Join(columns, "\t") + "\t"
	}
	fmt.Fprintln(table, "ACTION\tKIND\tNAME\t"+more("REPLICA", "CLUSTER")+"WHY\tCONTENT")
	rows := 0
	for p, a := range actionsOf(plans) {
		cluster := "-"
		if a.Slice != nil {
			cluster = a.Slice.Cluster
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s%s\t%s\n", a.Verb, a.Kind, a.fullName(p.Replica), more(p.Replica.String(), cluster), a.Why, a.content())
		rows++
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if rows == 0 {
		out.Reset()
	}
	writeFields(&out, plans)
	writeObstacles(&out, plans)
	fmt.Fprintln(&out, summarise(plans))
	_, err := w.Write(trimLines(out.Bytes()))
	return err
}

// writeFields prints what updates change, field by field.
func writeFields(out *bytes.Buffer, plans []Plan) {
	title := "\nChanges:\n"
	for p, a := range actionsOf(plans) {
		for _, f := range p.Fields(a) {
			fmt.Fprintf(out, "%s  %s %s %s: %s → %s\n", title, a.Kind, a.fullName(p.Replica), f.Field, cmp.Or(f.From, "none"), cmp.Or(f.To, "none"))
			title = ""
		}
	}
}

// actionsOf are the actions of plans in order.
func actionsOf(plans []Plan) iter.Seq2[*Plan, *Action] {
	return func(yield func(*Plan, *Action) bool) {
		for i := range plans {
			for _, stage := range plans[i].Sequence() {
				for j := range stage {
					if !yield(&plans[i], &stage[j]) {
						return
					}
				}
			}
		}
	}
}

// fullName is the object's name with its namespace, if it lives in one.
func (a *Action) fullName(replica syncer.Key) string {
	if a.Kind == KindNamespace {
		return a.Name
	}
	return replica.Namespace + "/" + a.Name
}

// content says what the object will hold.
func (a *Action) content() string {
	switch {
	case a.Service != nil:
		return "ports " + listText(a.Service.Ports, servicePortText)
	case a.Endpoints != nil:
		states, n := a.states(), 0
		for _, state := range states {
			if state == ready {
				n++
			}
		}
		text := fmt.Sprintf("%d ready, %d not ready", n, len(states)-n)
		if a.Endpoints.Truncated {
			text += ", truncated"
		}
		return text
	case a.Slice != nil:
		ready := 0
		for i := range a.Slice.Endpoints {
			if a.Slice.Endpoints[i].Ready {
				ready++
			}
		}
		return fmt.Sprintf("%s %s: %d ready, %d not ready; ports %s",
			a.Slice.Cluster, a.Slice.Family, ready, len(a.Slice.Endpoints)-ready, listText(a.Slice.Ports, syncer.Port.String))
	}
	return ""
}

func servicePortText(p syncer.ServicePort) string {
	text := fmt.Sprintf("%d/%s→", p.Port, p.Protocol)
	if p.Name != "" {
		text = p.Name + ":" + text
	}
	if p.Target.Name != "" {
		return text + p.Target.Name
	}
	return fmt.Sprint(text, p.Target.Number)
}

func listText[P any](ports []P, text func(P) string) string {
	var texts []string
	for _, p := range ports {
		texts = append(texts, text(p))
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}

// writeObstacles prints conflicts, waits and held changes, if any.
func writeObstacles(out *bytes.Buffer, plans []Plan) {
	section := func(title string, print func(p *Plan)) {
		before := out.Len()
		fmt.Fprintf(out, "\n%s:\n", title)
		start := out.Len()
		for i := range plans {
			print(&plans[i])
		}
		if out.Len() == start {
			out.Truncate(before)
		}
	}
	section("Conflicts", func(p *Plan) {
		for _, c := range p.Conflicts {
			fmt.Fprintf(out, "  %s %s %s\n", p.Replica, c.Reason, c.Message)
		}
	})
	section("Waiting", func(p *Plan) {
		if p.Waiting != "" {
			fmt.Fprintf(out, "  %s %s\n", p.Replica, p.Waiting)
		}
	})
	section("Held", func(p *Plan) {
		for _, h := range p.Held {
			fmt.Fprintf(out, "  %s %s %s\n", p.Replica, h.Cluster, h.Reason)
		}
	})
	section("Kept, though their cluster is not configured any more (put it back with drain: true, or set replicas.orphans: delete)", func(p *Plan) {
		for _, k := range p.Kept {
			fmt.Fprintf(out, "  %s %s %s\n", p.Replica, k.Cluster, counted(k.Endpoints, "endpoint"))
		}
	})
	if out.Len() > 0 {
		fmt.Fprintln(out)
	}
}

// Summary counts what plans hold.
type Summary struct {
	Replicas  int `json:"replicas"`
	Unchanged int `json:"unchanged"`
	Create    int `json:"create"`
	Update    int `json:"update"`
	Delete    int `json:"delete"`
	Conflicts int `json:"conflicts"`
	Waiting   int `json:"waiting"`
	Held      int `json:"held"`
	// Kept counts the shares of clusters that are not configured any more.
	Kept int `json:"kept"`
}

// Empty reports whether nothing has to be written.
func (s Summary) Empty() bool { return s.Create+s.Update+s.Delete == 0 }

// Summarise counts the actions and obstacles of plans.
func Summarise(plans []Plan) Summary {
	s := Summary{Replicas: len(plans)}
	verbs := map[Verb]int{}
	for _, a := range actionsOf(plans) {
		verbs[a.Verb]++
	}
	s.Create, s.Update, s.Delete = verbs[Create], verbs[Update], verbs[Delete]
	for i := range plans {
		p := &plans[i]
		blocked := p.Waiting != "" || slices.ContainsFunc(p.Conflicts, func(c Conflict) bool { return c.Reason == ConflictForeign })
		if p.Empty() && !blocked {
			s.Unchanged++
		}
		s.Conflicts += len(p.Conflicts)
		s.Held += len(p.Held)
		s.Kept += len(p.Kept)
		if p.Waiting != "" {
			s.Waiting++
		}
	}
	return s
}

func summarise(plans []Plan) string {
	s := Summarise(plans)
	text := fmt.Sprintf("%d to create, %d to update, %d to delete; %d of %d replicas unchanged",
		s.Create, s.Update, s.Delete, s.Unchanged, s.Replicas)
	for _, more := range []struct {
		n    int
		word string
	}{{s.Conflicts, "in conflict"}, {s.Waiting, "waiting"}, {s.Held, "held"}, {s.Kept, "kept of clusters that are not configured"}} {
		if more.n > 0 {
			text += fmt.Sprintf("; %d %s", more.n, more.word)
		}
	}
	return text
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// trimLines cuts the padding that a table leaves before empty cells.
func trimLines(text []byte) []byte {
	lines := bytes.Split(text, []byte{'\n'})
	for i := range lines {
		lines[i] = bytes.TrimRight(lines[i], " ")
	}
	return bytes.Join(lines, []byte{'\n'})
}
