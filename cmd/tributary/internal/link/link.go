// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters/kubeconfig"
)

// Options say which cluster becomes a member and where its kubeconfig is kept.
type Options struct {
	// Name is the member's.
	Name string
	// Namespace and Account say whom the member knows Tributary by.
	Namespace, Account string
	// Namespaces are those that Tributary may read, by Roles in them; none for all.
	Namespaces []string
	// Lifetime is asked for the token, ten minutes at least; the API server may give less.
	Lifetime time.Duration
	// Server is how Tributary reaches the member.
	Server Server
	// Member and Objects are the administrator's clients of the member.
	Member  kubernetes.Interface
	Objects dynamic.Interface
	// Keep is where the kubeconfig is kept.
	Keep Keep
	// KeptNowhere: Unlink goes on where that place is empty.
	KeptNowhere bool
}

// Validate reports what is wrong with the options, as flags of the command.
func (o Options) Validate() error {
	var problems []error
	label := func(flag, value string) {
		if len(validation.IsDNS1123Label(value)) > 0 {
			problems = append(problems, fmt.Errorf("%s: %q is not a DNS label: use lower-case letters, digits and '-'", flag, value))
		}
	}
	label("NAME", o.Name)
	label("--namespace", o.Namespace)
	label("--account", o.Account)
	for _, namespace := range o.Namespaces {
		label("--namespaces", namespace)
	}
	if o.Keep.Namespace != "" {
		label("--ingress-namespace", o.Keep.Namespace)
	}
	if o.Server.URL != "" {
		if err := CheckServer(o.Server.URL); err != nil {
			problems = append(problems, fmt.Errorf("--server: %w", err))
		}
	}
	if o.Lifetime < minLifetime {
		problems = append(problems, fmt.Errorf("--lifetime: %s is less than the %s that Kubernetes gives at least", o.Lifetime, minLifetime))
	}
	return errors.Join(problems...)
}

const (
	minLifetime = 10 * time.Minute
	// lifetimeSlack is what an API server adds to a life.
	lifetimeSlack = time.Minute
)

func (o Options) account() account {
	return account{member: o.Name, namespace: o.Namespace, name: o.Account, namespaces: o.Namespaces}
}

// Result is what a call did.
type Result struct {
	Steps []Step
	// Kept names the place of the kubeconfig, and Expires when its token ends, as far as
	// it is not renewed.
	Kept    string
	Expires time.Time
}

// Link makes the cluster a member. A second call changes nothing but a token that the member refuses, or of which less
// than half is left. What was done is reported even if it ends in an error.
func Link(ctx context.Context, o Options) (Result, error) {
	var result Result
	manifests, err := o.Manifests()
	if err != nil {
		return result, err
	}
	before, err := o.Keep.read(ctx)
	if err != nil {
		return result, err
	}
	if err := o.refused(ctx, before); err != nil {
		return result, err
	}
	if err := o.account().taken(ctx, o.Objects, manifests); err != nil {
		return result, err
	}
	account, err := o.findAccount(ctx)
	if err != nil {
		return result, err
	}
	wanted := map[string]bool{}
	for _, object := range manifests {
		if object.GetKind() == "ServiceAccount" {
			noted(object, append(o.Keep.otherPlaces(ctx, account), o.Keep.place(ctx)))
		}
		wanted[named(object)] = true
		step, err := put(ctx, o.Objects, object)
		if err != nil {
			return result, err
		}
		result.Steps = append(result.Steps, step)
	}
	// A right that the last call gave, and this one does not.
	gone, err := o.account().remove(ctx, o.Objects, wanted)
	result.Steps = append(result.Steps, gone...)
	if err != nil {
		return result, err
	}
	return result, o.keepToken(ctx, &result, before)
}

// keepToken puts a token of the account where Tributary finds it.
func (o Options) keepToken(ctx context.Context, result *Result, before kept) error {
	result.Kept = o.Keep.String()
	account, err := o.findAccount(ctx)
	if err != nil {
		return err
	}
	if token, ok := o.stillGood(ctx, before); ok && account != nil && token.UID == account.GetUID() && before.settings == o.settings(before.settings) {
		result.Expires = token.Expires
		result.Steps = append(result.Steps, Step{Did: "unchanged", What: o.Keep.String()})
		return nil
	}
	if o.Keep.Ingress == nil {
		if err := kubeconfig.Replaceable(o.Keep.File); err != nil {
			return err // before a token is asked for that nothing would keep
		}
	}
	granted, err := o.Member.CoreV1().ServiceAccounts(o.Namespace).CreateToken(ctx, o.Account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(o.Lifetime / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("a token of %s/%s: %w", o.Namespace, o.Account, err)
	}
	text, err := o.Server.kubeconfig(o.Name, o.Account, granted.Status.Token)
	if err != nil {
		return err
	}
	// What Tributary would refuse is better refused here.
	if _, err := kubeconfig.Accept(text, kubeconfig.Request{Path: o.Keep.String()}); err != nil {
		return err
	}
	result.Expires = granted.Status.ExpirationTimestamp.Time
	did := "updated"
	if !before.found {
		did = "created"
	}
	if err := o.Keep.write(ctx, text, o.settings(before.settings)); err != nil {
		return err
	}
	result.Steps = append(result.Steps, Step{Did: did, What: o.Keep.String()})
	return nil
}

// settings are what a member's Secret is to say, given what it says: with namespaces, that nothing else may be read, even
// of Kubernetes' own; without them, what a former call wrote goes, and what somebody else set stays.
func (o Options) settings(before settings) settings {
	switch {
	case o.Keep.Ingress == nil:
		return settings{}
	case len(o.Namespaces) > 0:
		return settings{namespaces: "{include: [" + strings.Join(o.Namespaces, ", ") + "], exclude: []}", rolesOnly: "true"}
	case before.rolesOnly == "true" && linked.MatchString(before.namespaces):
		return settings{}
	}
	return before
}

// linked is what settings writes of namespaces.
var linked = regexp.MustCompile(`^\{include: \[[-a-z0-9]+(, [-a-z0-9]+)*\], exclude: \[\]\}$`)

// stillGood reports whether what is kept leads to the same place, with a token of the account that the member takes, of
// which half is left, and that does not live for longer than is asked for.
func (o Options) stillGood(ctx context.Context, before kept) (kubeconfig.AccountToken, bool) {
	token, text, ok := o.made(before)
	life := token.Expires.Sub(token.Issued)
	if !ok || !o.Server.isIn(before.text) || time.Until(token.Expires) <= life/2 || life > o.Lifetime+lifetimeSlack {
		return token, false
	}
	review, err := o.Member.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: text}}, metav1.CreateOptions{})
	return token, err != nil || review.Status.Authenticated // who may not ask believes it
}

// Unlink takes away what Link made: the kubeconfig first, so that Tributary lets go of the member before it loses its
// rights. Where none is kept and the account stands, it is likely kept elsewhere: that is refused. What is gone already is
// no error.
func Unlink(ctx context.Context, o Options) (Result, error) {
	result := Result{Kept: o.Keep.String()}
	before, err := o.Keep.read(ctx)
	if err != nil {
		return result, err
	}
	if err := o.refused(ctx, before); err != nil {
		return result, err
	}
	account, err := o.findAccount(ctx)
	if err != nil {
		return result, err
	}
	if !before.found && !o.KeptNowhere && account != nil && ours(account) {
		return result, o.keptElsewhere()
	}
	if others := o.Keep.otherPlaces(ctx, account); len(others) > 0 {
		result.Steps, err = o.leave(ctx, account, others)
		return result, err
	}
	a := o.account()
	steps, err := o.Keep.remove(ctx)
	result.Steps = steps
	if err != nil {
		return result, err
	}
	steps, err = a.remove(ctx, o.Objects, nil)
	result.Steps = append(result.Steps, steps...)
	if err != nil {
		return result, err
	}
	steps, err = a.removeNamespace(ctx, o.Objects)
	result.Steps = append(result.Steps, steps...)
	return result, err
}
