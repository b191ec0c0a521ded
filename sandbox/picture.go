package sandbox

import (
	"encoding/binary"
	"fmt"
	"image"
	_ "image/gif" // the formats whose size DecodeConfig has to know
	_ "image/jpeg"
	_ "image/png"
	"io"
	"net/http"
	"strings"
)

// checkPicture reports whether a file is a picture that Codex can be given, and
// why it must not even lie in the room. A picture is what its first bytes say,
// not its name: the model may open any file of the room as one, and a small
// file can stand for gigabytes of pixels.
func checkPicture(file io.ReadSeeker, maxPixels int64) (picture bool, why string) {
	head := make([]byte, 512)
	n, err := io.ReadFull(file, head)
	if err != nil && n == 0 {
		return false, ""
	}
	head = head[:n]
	kind := http.DetectContentType(head)
	if len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP" {
		kind = "image/webp" // whatever its first chunk is
	}
	if !strings.HasPrefix(kind, "image/") {
		return false, ""
	}
	var width, height int64
	switch kind {
	case "image/png", "image/jpeg", "image/gif":
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return false, "is a picture that cannot be read"
		}
		config, _, err := image.DecodeConfig(file)
		if err != nil {
			return false, "is a picture that cannot be read"
		}
		width, height = int64(config.Width), int64(config.Height)
	case "image/webp":
		width, height = webpSize(head)
	default:
		return false, "is a picture of a kind that is not taken (png, jpeg, gif and webp are)"
	}
	switch {
	case width <= 0 || height <= 0:
		return false, "is a picture that cannot be read"
	case width*height > maxPixels:
		return false, fmt.Sprintf("is a picture of %d x %d pixels, more than the %d million that are taken", width, height, maxPixels>>20)
	}
	return true, ""
}

// webpSize reads the canvas of a WebP file from its first chunk; 0 when it is
// none of the three kinds (RFC 9649, sections 2.5 to 2.7).
func webpSize(head []byte) (width, height int64) {
	if len(head) < 30 {
		return 0, 0
	}
	u16 := func(at int) int64 { return int64(binary.LittleEndian.Uint16(head[at:])) }
	switch string(head[12:16]) {
	case "VP8 ":
		return u16(26) & 0x3fff, u16(28) & 0x3fff
	case "VP8L":
		bits := binary.LittleEndian.Uint32(head[21:])
		return int64(bits&0x3fff) + 1, int64(bits>>14&0x3fff) + 1
	case "VP8X":
		u24 := func(at int) int64 { return u16(at) | int64(head[at+2])<<16 }
		return u24(24) + 1, u24(27) + 1
	}
	return 0, 0
}
