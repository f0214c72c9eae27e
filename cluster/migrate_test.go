package main

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// migration returns the Job that migrates the database.
func migration(t *testing.T, all []manifest) *batchv1.Job {
	t.Helper()
	for _, m := range all {
		if job, ok := m.object.(*batchv1.Job); ok && strings.HasPrefix(m.meta.Name, "ingot-migrate-") {
			return job
		}
	}
	t.Fatal("no Job migrates the database")
	panic("unreachable")
}

// TestMigrateJob: the database is migrated before servers start, with their image and
// their Secret, and no Service or budget counts the Job's Pod as a server.
func TestMigrateJob(t *testing.T) {
	t.Parallel()
	all := shipped(t)
	job := migration(t, all)
	if got := job.Annotations["helm.sh/hook"]; got != "pre-install,pre-upgrade" {
		t.Errorf("hook %q, want pre-install,pre-upgrade", got)
	}
	server := find[*appsv1.Deployment](t, all, "ingot").Spec.Template.Spec.Containers[0]
	migrates := job.Spec.Template.Spec.Containers[0]
	if !slices.Equal(migrates.Args, []string{"db", "migrate"}) || migrates.Image != server.Image ||
		migrates.EnvFrom[0].SecretRef.Name != server.EnvFrom[0].SecretRef.Name {
		t.Errorf("it runs %s %v with %v, want db migrate of %s with %v", migrates.Image, migrates.Args, migrates.EnvFrom,
			server.Image, server.EnvFrom)
	}
	for _, m := range all {
		service, ok := m.object.(*corev1.Service)
		if ok &&
			service.Spec.Selector["app.kubernetes.io/component"] == job.Spec.Template.Labels["app.kubernetes.io/component"] {
			t.Errorf("the Service %s sends requests to the Job", m.meta.Name)
		}
	}
}

// TestMigrateJobOptions: another image is another Job, because a Job cannot be changed;
// if the chart creates the servers' Secret, the Job has a separate one.
func TestMigrateJobOptions(t *testing.T) {
	t.Parallel()
	one := migration(t, decode(t, template(t, "--set", "image.tag=1")))
	two := migration(t, decode(t,
		template(t, "--set", "image.tag=2,secret.create=true,secret.values.INGOT_DATABASE_URL=postgres://a")))
	if one.Name == two.Name {
		t.Errorf("both are named %s, want different names", one.Name)
	}
	all := decode(t, template(t, "--set", "secret.create=true,secret.values.INGOT_DATABASE_URL=postgres://a"))
	if got := migration(t, all).Spec.Template.Spec.Containers[0].EnvFrom[0].SecretRef.Name; got != "ingot-migrate" {
		t.Errorf("the Job reads the Secret %s, want ingot-migrate", got)
	}
	if got := find[*corev1.Secret](t, all, "ingot-migrate").Annotations["helm.sh/hook-weight"]; got != "-5" {
		t.Errorf("its Secret has weight %q, want one before the Job's", got)
	}
	for _, m := range decode(t, template(t, "--set", "migrate.enabled=false")) {
		if m.kind == "Job" {
			t.Errorf("Job %s exists, though it is disabled", m.meta.Name)
		}
	}
}
