package s3

import "github.com/minio/minio-go/v7"

var listAll = minio.ListObjectsOptions{Prefix: "pre/fix/", Recursive: true}
