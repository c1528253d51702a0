Rails.application.routes.draw do
  root "pages#index"
  get "stream", to: "pages#stream"
  post "upload", to: "pages#upload"
  get "log", to: "pages#log"
  get "error", to: "pages#error"
  get "below", to: "pages#below"
  resources :posts
end
