// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"time"
)

// StampFormat is RFC 3339 in UTC with microseconds, always written out, so that
// records sort as text.
const StampFormat = "2006-01-02T15:04:05.000000Z"

// MarshalJSON renders the record as one line, in the order of the contract.
func (r *Change) MarshalJSON() ([]byte, error) {
	return r.AppendJSON(make([]byte, 0, 768)), nil
}

// AppendJSON appends the record as one line of JSON, without a newline. It is
// written by hand because every follower renders every record, and because the
// order and the fixed precision are part of the contract (BenchmarkRecordJSON).
func (r *Change) AppendJSON(b []byte) []byte {
	for i, a := range r.attrs() {
		b = appendName(append(b, separator(i, "{")...), a.Key)
		switch v := a.Value; v.Kind() {
		case slog.KindString:
			b = appendString(b, v.String())
		case slog.KindAny, slog.KindLogValuer:
			b = appendAny(b, v.Any())
		default:
			b = append(b, v.String()...)
		}
		if i == 0 { // a line of a log has a time of its own
			b = appendTime(append(b, `,"time":`...), r.Time)
		}
	}
	return append(b, '}')
}

// appendAny renders what a record holds beside texts and numbers.
func appendAny(b []byte, value any) []byte {
	switch v := value.(type) {
	case *Cause:
		return v.appendJSON(b)
	case *Stages:
		return v.appendJSON(b)
	case causeList:
		for i := range v {
			b = v[i].appendJSON(append(b, separator(i, "[")...))
		}
		return append(b, ']')
	case []string: // an empty one as [], so that a reader need not tell null from none
		b = append(b, '[')
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, s)
		}
		return append(b, ']')
	}
	return b
}

// rule is the rule of the configuration that the change is due to: that of the first of
// its causes that names one.
func (r *Change) rule() string {
	for i := 0; r.Cause.Rule == "" && i < len(r.Causes); i++ {
		if rule := r.Causes[i].Rule; rule != "" {
			return rule
		}
	}
	return r.Cause.Rule
}

// MarshalJSON renders the cause with its arrival in UTC.
func (c Cause) MarshalJSON() ([]byte, error) {
	return c.appendJSON(make([]byte, 0, 256)), nil
}

func (c *Cause) appendJSON(b []byte) []byte {
	b = appendString(append(b, `{"kind":`...), c.Kind)
	b = appendOptional(b, "cluster", c.Cluster)
	b = appendOptional(b, "namespace", c.Namespace)
	b = appendOptional(b, "name", c.Name)
	b = appendOptional(b, "uid", c.UID)
	b = appendOptional(b, "resourceVersion", c.ResourceVersion)
	b = appendField(b, "event", c.Event)
	b = appendOptional(b, "state", c.State)
	b = appendOptional(b, "ip", c.IP)
	b = appendOptional(b, "kept", c.Kept)
	b = appendOptional(b, "rule", c.Rule)
	if !c.SourceTime.IsZero() {
		b = appendTime(append(b, `,"sourceTime":`...), c.SourceTime)
	}
	b = appendTime(append(b, `,"arrival":`...), c.Arrival)
	b = strconv.AppendBool(append(b, `,"live":`...), c.Live)
	return append(b, '}')
}

// MarshalJSON renders the stages in milliseconds.
func (s Stages) MarshalJSON() ([]byte, error) {
	return s.appendJSON(make([]byte, 0, 160)), nil
}

func (s *Stages) appendJSON(b []byte) []byte {
	for i, part := range s.parts() {
		if *part.took > 0 || !part.optional {
			b = appendName(append(b, separator(i, "{")...), part.name)
			b = strconv.AppendFloat(b, millis(*part.took), 'f', 3, 64)
		}
	}
	return append(b, '}')
}

// UnmarshalJSON is the inverse of MarshalJSON, to the microsecond.
func (s *Stages) UnmarshalJSON(data []byte) error {
	var took map[string]float64
	if err := json.Unmarshal(data, &took); err != nil {
		return err
	}
	*s = Stages{}
	for _, part := range s.parts() {
		*part.took = time.Duration(took[part.name] * float64(time.Millisecond)).Round(time.Microsecond)
	}
	return nil
}

// part is a stage by its name; an optional one is left out where it took no time.
type part struct {
	name     string
	took     *time.Duration
	optional bool
}

// parts are the stages in the order of the contract. The first is not optional.
func (s *Stages) parts() [7]part {
	return [...]part{
		{"queue", &s.Queue, false},
		{"compute", &s.Compute, false},
		{"write_service", &s.WriteService, true},
		{"write_endpoints", &s.WriteEndpoints, false},
		{"write_slices", &s.WriteSlices, false},
		{"total", &s.Total, false},
		{"echo", &s.Echo, true},
	}
}

func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, StampFormat)
	return append(b, '"')
}

func appendName(b []byte, name string) []byte {
	return append(append(append(b, '"'), name...), `":`...)
}

func appendField(b []byte, name, value string) []byte {
	return appendString(appendName(append(b, ','), name), value)
}

func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendField(b, name, value)
}

// separator is what stands before the i-th element of a list.
func separator(i int, opening string) string {
	if i == 0 {
		return opening
	}
	return ","
}

// appendString renders s as JSON. What a cluster sends is nearly always plain
// ASCII; anything else goes the long way.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil { // cannot happen: a string always marshals
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
