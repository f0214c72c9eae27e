package main

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

const backupValues = "backup.schedule=30 2 * * *,backup.target=s3://backups/ingot?endpoint=https://s3.example.com"

// TestBackupJob: with a schedule, a CronJob runs 'ingot backup' with the image, the
// database, the bucket and the keys of the servers.
func TestBackupJob(t *testing.T) {
	t.Parallel()
	all := decode(t, template(t, "--set", backupValues, "--set", "environment.INGOT_POSTGRES_URL=postgres://a"))
	checkRestricted(t, all)
	job := find[*batchv1.CronJob](t, all, "ingot-backup")
	if job.Spec.Schedule != "30 2 * * *" || job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent ||
		job.Spec.TimeZone != nil {
		t.Errorf("%+v, want every night, one at a time", job.Spec)
	}
	server := find[*appsv1.Deployment](t, all, "ingot").Spec.Template.Spec.Containers[0]
	pod := job.Spec.JobTemplate.Spec.Template
	backs := pod.Spec.Containers[0]
	if !slices.Equal(backs.Args, []string{"backup"}) || backs.Image != server.Image ||
		backs.EnvFrom[0].SecretRef.Name != server.EnvFrom[0].SecretRef.Name {
		t.Errorf("it runs %s %v with %v, want backup of %s with %v", backs.Image, backs.Args, backs.EnvFrom, server.Image,
			server.EnvFrom)
	}
	for name, want := range map[string]string{
		"INGOT_BACKUP_TARGET": "s3://backups/ingot?endpoint=https://s3.example.com", "INGOT_BACKUP_KEEP": "14",
		"INGOT_POSTGRES_URL": "postgres://a", "INGOT_DATA_DIR": "/var/lib/ingot",
	} {
		if got := variable(t, backs, name).Value; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"INGOT_BACKUP_RECIPIENTS": "ingot-backup recipients",
		"INGOT_BACKUP_SIGNING_KEY": "ingot-backup signing-key", "INGOT_ENCRYPTION_KEY": "ingot-files encryption-keys"} {
		from := variable(t, backs, name).ValueFrom.SecretKeyRef
		if got := from.Name + " " + from.Key; got != want {
			t.Errorf("%s comes from %q, want %q", name, got, want)
		}
	}
	for _, m := range all {
		service, ok := m.object.(*corev1.Service)
		if ok && service.Spec.Selector["app.kubernetes.io/component"] == pod.Labels["app.kubernetes.io/component"] {
			t.Errorf("the Service %s sends requests to the backup", m.meta.Name)
		}
	}
}

// TestBackupIsOff: without a schedule there is no CronJob.
func TestBackupIsOff(t *testing.T) {
	t.Parallel()
	for _, m := range shipped(t) {
		if m.kind == "CronJob" {
			t.Errorf("%s %s exists, though no schedule is set", m.kind, m.meta.Name)
		}
	}
}

func variable(t *testing.T, c corev1.Container, name string) corev1.EnvVar {
	t.Helper()
	i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("the container %s has no variable %s", c.Name, name)
	}
	return c.Env[i]
}
