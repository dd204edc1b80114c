// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// User is an identity with its credential: a token, or a client certificate with its key (PEM).
type User struct {
	Name      string
	Groups    []string
	Token     string
	Cert, Key []byte
}

// TokenUser makes a user with a random token, for Options.Tokens. Kubernetes treats a user with the name and groups of a
// service account as one, in priority levels too.
func TokenUser(name string, groups ...string) User {
	return User{Name: name, Groups: groups, Token: rand.Text()}
}

// NewUser makes a user with a client certificate, and grants it rules in the whole cluster.
func (c *Cluster) NewUser(ctx context.Context, name string, rules ...rbacv1.PolicyRule) (User, error) {
	u, err := c.certUser(name)
	if err != nil {
		return User{}, err
	}
	return u, c.Grant(ctx, name, rules...)
}

func (c *Cluster) certUser(name string, groups ...string) (User, error) {
	p, err := c.ca.client(name, groups, certificateLife)
	return User{Name: name, Groups: groups, Cert: p.cert, Key: p.key}, err
}

// Certify signs another, short-lived certificate for a user.
func (c *Cluster) Certify(name string, life time.Duration) (User, error) {
	p, err := c.ca.client(name, nil, life)
	return User{Name: name, Cert: p.cert, Key: p.key}, err
}

// CA is the certificate of the cluster's authority (PEM).
func (c *Cluster) CA() []byte { return c.ca.certPEM }

// NewServiceAccount makes a service account, and its namespace if necessary, with a token of 24 hours that the apiserver
// issues. The token ends with the account: delete it to revoke.
func (c *Cluster) NewServiceAccount(ctx context.Context, namespace, name string, rules ...rbacv1.PolicyRule) (User, error) {
	fail := func(err error) (User, error) {
		return User{}, fmt.Errorf("service account %s/%s of %s: %w", namespace, name, c.options.Name, err)
	}
	core := c.client.CoreV1()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := core.Namespaces().Create(ctx, ns, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fail(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := core.ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fail(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 60 * 60))}}
	granted, err := core.ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fail(err)
	}
	u := User{Name: "system:serviceaccount:" + namespace + ":" + name, Token: granted.Status.Token}
	return u, c.Grant(ctx, u.Name, rules...)
}

// Grant sets the rules of a user: a second call replaces the first. It returns when the apiserver applies the first of
// the rules, which is a moment after it has stored them.
func (c *Cluster) Grant(ctx context.Context, user string, rules ...rbacv1.PolicyRule) error {
	name := "e2e:" + user
	roles, bindings := c.client.RbacV1().ClusterRoles(), c.client.RbacV1().ClusterRoleBindings()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	_, err := roles.Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("grant to %s in %s: %w", user, c.options.Name, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("grant to %s in %s: %w", user, c.options.Name, err)
	}
	if len(rules) == 0 || len(rules[0].Resources) == 0 {
		return nil
	}
	if err := poll(ctx, 5*time.Millisecond, func(ctx context.Context) error { return c.allowed(ctx, user, rules[0]) }); err != nil {
		return fmt.Errorf("grant to %s in %s: %w", user, c.options.Name, err)
	}
	return nil
}

var errNotAllowed = errors.New("not in force yet")

// allowed asks the apiserver whether the user may do the first thing that a rule allows.
func (c *Cluster) allowed(ctx context.Context, user string, rule rbacv1.PolicyRule) error {
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
		}},
	}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = errNotAllowed
	}
	return err
}

// Revoke undoes Grant. The apiserver answers 403 a moment later; open watches continue.
func (c *Cluster) Revoke(ctx context.Context, user string) error {
	err := c.client.RbacV1().ClusterRoleBindings().Delete(ctx, "e2e:"+user, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("revoke from %s in %s: %w", user, c.options.Name, err)
	}
	return nil
}

// Config returns the client configuration of a user: no client-side limit, protobuf, no warnings (an apiserver sends one
// with each response about Endpoints).
func (c *Cluster) Config(u User) *rest.Config {
	return &rest.Config{
		Host: c.url, BearerToken: u.Token, QPS: -1, WarningHandler: rest.NoWarnings{},
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.certPEM, CertData: u.Cert, KeyData: u.Key},
		ContentConfig: rest.ContentConfig{
			ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
	}
}

// Kubeconfig returns the user's kubeconfig, everything inline. Cluster and context have the cluster's name.
func (c *Cluster) Kubeconfig(u User) ([]byte, error) {
	return Kubeconfig(c.options.Name, c.url, c.ca.certPEM, u)
}

// Kubeconfig returns a user's kubeconfig for a server of an authority (PEM), everything inline.
func Kubeconfig(name, url string, ca []byte, u User) ([]byte, error) {
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	file.AuthInfos[u.Name] = &clientcmdapi.AuthInfo{Token: u.Token, ClientCertificateData: u.Cert, ClientKeyData: u.Key}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: u.Name}
	file.CurrentContext = name
	text, err := clientcmd.Write(*file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s for %s: %w", u.Name, name, err)
	}
	return text, nil
}
