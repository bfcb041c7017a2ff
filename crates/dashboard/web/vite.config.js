import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  build: {
    // What others wrote is part of the page, and so are their licenses.
    license: { fileName: "licenses.txt" },
    outDir: "../page",
    emptyOutDir: true,
    // Nothing is written into the page's HTML: its policy forbids scripts there.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000,
  },
});
