// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

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
}

// minLifetime is the shortest life of a token that Kubernetes gives.
const minLifetime = 10 * time.Minute

// Validate reports what is wrong with the options, as flags of the command.
func (o *Options) Validate() error {
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

// Result is what a call did.
type Result struct {
	Steps []Step
	// Expires is when the token ends, as far as it is not renewed.
	Expires time.Time
}

// Link makes the cluster a member. A second call changes only what differs, and gives another
// token where less than half of the life of the one that is kept is left. What was done is
// reported even if it ends in an error.
func Link(ctx context.Context, o Options) (Result, error) {
	var result Result
	kept, err := o.kept(ctx)
	if err != nil {
		return result, err
	}
	manifests, err := o.Manifests()
	if err != nil {
		return result, err
	}
	wanted := map[string]bool{}
	for _, object := range manifests {
		wanted[named(object)] = true
		step, err := o.put(ctx, object)
		if err != nil {
			return result, err
		}
		result.Steps = append(result.Steps, step)
	}
	// A right that the last call gave, and this one does not.
	gone, err := o.remove(ctx, wanted)
	result.Steps = append(result.Steps, gone...)
	if err != nil {
		return result, err
	}
	return result, o.keepToken(ctx, &result, kept)
}

// kept returns the kubeconfig that is kept, nil for none. One that link did not make for this
// member is an error, and so is an account of another member: the context may be the wrong one.
func (o *Options) kept(ctx context.Context) ([]byte, error) {
	account, err := o.account(ctx)
	if err != nil {
		return nil, err
	}
	if account != nil && account.Annotations[memberAnnotation] != o.Name && o.ours(account) {
		return nil, fmt.Errorf("the account %s/%s of this cluster is that of member %s: give the --context of %s, or another --account if it is the same cluster", o.Namespace, o.Account, account.Annotations[memberAnnotation], o.Name)
	}
	text, err := o.Keep.read(ctx)
	if text == nil || err != nil {
		return nil, err
	}
	token, made := o.token(text)
	if !made {
		return nil, fmt.Errorf("%s is there and is not the kubeconfig of %s that link made for the account %s/%s: choose another place, or take it away", &o.Keep, o.Name, o.Namespace, o.Account)
	}
	if account == nil || account.UID != token.UID {
		if !o.Server.isIn(text) {
			return nil, fmt.Errorf("%s leads to another cluster than %s, and its account is not there: give the --context of %s; if that cluster is gone, take the kubeconfig away", &o.Keep, o.Server.URL, o.Name)
		}
	}
	return text, nil
}

// account is the one in the member; nil: there is none.
func (o *Options) account(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	found, err := o.Member.CoreV1().ServiceAccounts(o.Namespace).Get(ctx, o.Account, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("account %s/%s: %w", o.Namespace, o.Account, err)
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: found.ObjectMeta}, nil
}

// token reads the token of a kubeconfig that link made.
func (o *Options) token(text []byte) (token kubeconfig.AccountToken, made bool) {
	file, err := clientcmd.Load(text)
	if err != nil || len(file.Contexts) != 1 || file.Contexts[o.Name] == nil || file.AuthInfos[o.Account] == nil {
		return token, false
	}
	token, made = kubeconfig.ParseAccountToken(file.AuthInfos[o.Account].Token)
	return token, made && token.Namespace == o.Namespace && token.Account == o.Account
}

// keepToken puts a token of the account where Tributary finds it.
func (o *Options) keepToken(ctx context.Context, result *Result, kept []byte) error {
	account, err := o.account(ctx)
	if err != nil || account == nil {
		return errors.Join(err, fmt.Errorf("the account %s/%s is not there", o.Namespace, o.Account))
	}
	if o.stillGood(kept, account.UID) {
		token, _ := o.token(kept)
		result.Expires = token.Expires
		result.Steps = append(result.Steps, Step{"unchanged", o.Keep.String()})
		if o.Keep.Ingress == nil {
			return nil
		}
		return o.Keep.write(ctx, kept, o.Namespaces) // the namespaces may be others
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
	if _, faults := kubeconfig.FromSecret("", text); len(faults) > 0 {
		return faults.ToAggregate()
	}
	if err := o.Keep.write(ctx, text, o.Namespaces); err != nil {
		return err
	}
	result.Expires = granted.Status.ExpirationTimestamp.Time
	did := "updated"
	if kept == nil {
		did = "created"
	}
	result.Steps = append(result.Steps, Step{did, o.Keep.String()})
	return nil
}

// stillGood reports whether what is kept leads to the same place, with a token of the account
// of which half is left, and that does not live for longer than is asked for.
func (o *Options) stillGood(kept []byte, account types.UID) bool {
	token, made := o.token(kept)
	life := token.Expires.Sub(token.Issued)
	return made && token.UID == account && o.Server.isIn(kept) && time.Until(token.Expires) > life/2 && life <= o.Lifetime+time.Minute
}

// Unlink takes away what Link made: the kubeconfig first, so that Tributary lets go of the
// member before it loses its rights. What is gone already is no error. The namespace stays.
func Unlink(ctx context.Context, o Options) (Result, error) {
	var result Result
	kept, err := o.kept(ctx)
	if err != nil {
		return result, err
	}
	if kept != nil {
		if err := o.Keep.remove(ctx); err != nil {
			return result, err
		}
		result.Steps = append(result.Steps, Step{"deleted", o.Keep.String()})
	}
	steps, err := o.remove(ctx, nil)
	result.Steps = append(result.Steps, steps...)
	return result, err
}
